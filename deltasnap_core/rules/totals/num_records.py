"""The number of rows from the statistics of a file, before deletion vectors. In SQL and in Arrow.

Most writers put `numRecords` first. Then the number is extracted from the text, at a tenth of the cost of a JSON
parser. Other texts are parsed. A number written as a string is accepted. If a key occurs twice, the last value
counts. The result is null for invalid JSON, or without a 64-bit integer. Spark's parser has limits for the nesting and
for the length of a name: beyond them, the result is null on both engines.
Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.json_records import is_json_kind
from deltasnap_core.protocol.json_text import parse_json
from deltasnap_core.rules.texts.json_lines import parse_texts
from deltasnap_core.rules.texts.sql_text import let_sql, string_sql
from deltasnap_core.rules.texts.whole_json import whole_json_sql

_KEY = '{"numRecords":'
_NUMBER = "(?:0|-?[1-9][0-9]{0,17})"  # not -0, which Spark writes as 0: see num_records_sql
_LONGEST = 10**18 - 1
_FIRST = rf'^\{{"numRecords":(?P<number>{_NUMBER})(?:,|\}}$)'
_NUMBER_AS_TEXT = r"\s*[+-]?[0-9]{1,19}\s*"
_IS_NUMBER = re.compile(_NUMBER_AS_TEXT, re.ASCII)
_NUM_RECORDS = pa.schema([("numRecords", pa.int64())])

_MAX_NAME = 50_000
"""The maximum length of a name in UTF-16. Spark's parser has no option for it."""


def num_records_sql(stats: str) -> str:
    """Return SQL for the number of records, a bigint, from statistics as JSON; null: not stated."""
    text = first_text_sql(stats)
    return checked_number_sql(stats, text, first_number_sql(text))


def first_text_sql(stats: str) -> str:
    """Return SQL for the text of the number if it comes first, before a comma; null: read the JSON.

    This, `first_number_sql` and `checked_number_sql` are the steps of `num_records_sql`. As columns one after another,
    they take a quarter less time, because Spark evaluates each step once.
    """
    # `substring` of the whole text would first count all of its characters.
    first = f"substring(substring_index({stats}, ',', 1), {len(_KEY) + 1})"
    return f"case when startswith({stats}, '{_KEY}') and contains({stats}, ',') then {first} end"


def first_number_sql(text: str) -> str:
    """Return SQL for the number (bigint) of the text of `first_text_sql`; null: it is no number."""
    return f"try_cast({text} as bigint)"


def checked_number_sql(stats: str, text: str, number: str) -> str:
    """Return SQL for the number of records. text, number: the results of the other steps."""
    # A cast accepts more than JSON, such as `+5`, so compare the texts. A regular expression would take longer.
    is_number = f"cast({number} as string) = {text} and {number} between -{_LONGEST} and {_LONGEST}"
    return f"coalesce(case when {is_number} then {number} end, {_parsed_sql(stats)})"


def possible_records_sql(records: str, deleted: str) -> str:
    """Return SQL for a number of records that a file can have; null: it is below 0, or more rows than that are deleted.

    A sum with such a number would be wrong, and look right. deleted: SQL for the number of deleted rows.
    """
    return f"case when {deleted} between 0 and {records} then {records} end"


def possible_records(records: pa.Array, deleted: pa.Array) -> pa.Array:
    """Return numbers of records as `possible_records_sql`."""
    is_possible = pc.and_(pc.greater_equal(deleted, 0), pc.less_equal(deleted, records))
    return pc.if_else(is_possible, records, None)


def _parsed_sql(stats: str) -> str:
    parsed = whole_json_sql(stats, "struct<numRecords: string>")
    is_number = f"n.numRecords rlike {string_sql(f'^{_NUMBER_AS_TEXT}$')}"
    number = let_sql("n", parsed, f"if({is_number}, try_cast(n.numRecords as bigint), null)")
    # While it reads an array as text, Spark's parser skips an invalid character. It does not while it reads a number.
    is_json = f"{whole_json_sql(stats, 'struct<numRecords: bigint>')} is not null"
    return f"if({is_json}, {number}, null)"


def num_records(stats: pa.StringArray) -> pa.Array:
    """Return the numbers of records (int64) from statistics as JSON; null: not stated."""
    if stats.null_count == len(stats):
        return pa.nulls(len(stats), pa.int64())
    found = pc.struct_field(pc.extract_regex(stats, _FIRST), "number").cast(pa.int64())
    others = pc.and_(stats.is_valid(), found.is_null())
    if not pc.any(others).as_py():
        return found
    return pc.replace_with_mask(found, others, _parsed(stats.filter(others)))


def _parsed(stats: pa.StringArray) -> pa.Array:
    may_have_long_name = pc.max(pc.binary_length(stats)).as_py() > _MAX_NAME
    regular = None if may_have_long_name else parse_texts(stats, _NUM_RECORDS)
    if regular is not None:
        return regular["numRecords"].combine_chunks()
    if len(stats) > 1:  # split in halves, so that one irregular text does not slow down the others
        middle = len(stats) // 2
        return pa.concat_arrays([_parsed(stats.slice(0, middle)), _parsed(stats.slice(middle))])
    return pa.array([_number_in(stats[0].as_py())], pa.int64())


def _number_in(stats: str) -> int | None:
    try:
        # Numbers stay texts: Python limits their digits, and the text decides whether it is a number of records.
        values: Any = parse_json(stats, parse_int=str, parse_float=str, object_pairs_hook=_with_short_names)
    except ValueError:
        return None
    text = values.get("numRecords") if isinstance(values, dict) else None
    number = int(text) if isinstance(text, str) and _IS_NUMBER.fullmatch(text) else None
    return number if is_json_kind(number, int) else None


def _with_short_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if any(len(name.encode("utf-16-le", "surrogatepass")) > 2 * _MAX_NAME for name, _ in pairs):
        raise ValueError(f"a name of more than {_MAX_NAME} characters")
    return dict(pairs)
