"""The number of rows from the statistics of a file, before deletion vectors. In SQL and in Arrow.

Most writers put `numRecords` first. Then the number is extracted from the text, at a tenth of the cost of a JSON
parser. Other texts are parsed. A number written as a string is accepted. The result is null for invalid JSON, or
without a 64-bit integer.
Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.json_fields import is_json_kind
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.rules.json_lines import parse_texts

_KEY = '{"numRecords":'
_FIRST = r'^\{"numRecords":(?P<number>[+-]?[0-9]{1,18})[,}]'
_NUMBER_AS_TEXT = re.compile(r"\s*[+-]?[0-9]{1,19}\s*", re.ASCII)
_NUM_RECORDS = pa.schema([("numRecords", pa.int64())])


def num_records_sql(stats: str) -> str:
    """Return SQL for the number of records, a bigint, from statistics as JSON; null: not stated."""
    is_first = f"startswith({stats}, '{_KEY}') and contains({stats}, ',')"
    # `substring` of the whole text would first count all of its characters.
    first = f"try_cast(substring(substring_index({stats}, ',', 1), {len(_KEY) + 1}) as bigint)"
    parsed = f"try_cast(get_json_object({stats}, '$.numRecords') as bigint)"
    return f"coalesce(case when {is_first} then {first} end, {parsed})"


def num_records(stats: pa.StringArray) -> pa.Array:
    """Return the numbers of records (int64) from statistics as JSON; null: not stated."""
    if stats.null_count == len(stats):
        return pa.nulls(len(stats), pa.int64())
    number = pc.struct_field(pc.extract_regex(stats, _FIRST), "number")
    # Arrow does not parse numbers with a plus sign.
    found = pc.ascii_ltrim(number, "+").cast(pa.int64())
    others = pc.and_(stats.is_valid(), found.is_null())
    if not pc.any(others).as_py():
        return found
    return pc.replace_with_mask(found, others, _parsed(stats.filter(others)))


def _parsed(stats: pa.StringArray) -> pa.Array:
    regular = parse_texts(stats, _NUM_RECORDS)
    if regular is not None:
        return regular["numRecords"].combine_chunks()
    if len(stats) > 1:  # split in halves, so that one irregular text does not slow down the others
        middle = len(stats) // 2
        return pa.concat_arrays([_parsed(stats.slice(0, middle)), _parsed(stats.slice(middle))])
    return pa.array([_number_in(stats[0].as_py())], pa.int64())


def _number_in(stats: str) -> int | None:
    try:
        values: Any = decode_json(stats)
    except ValueError:
        return None
    number = values.get("numRecords") if isinstance(values, dict) else None
    if isinstance(number, str) and _NUMBER_AS_TEXT.fullmatch(number):
        number = int(number)
    return number if is_json_kind(number, int) else None
