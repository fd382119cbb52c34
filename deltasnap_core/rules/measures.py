"""File actions in short: what of them counts towards a computed state, taken by Arrow out of what it has parsed.

`DIGESTED` of `rules/aggregates.py` says the same of Spark's columns; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.rules.json_lines import parsed_texts

FILE_DIGEST = pa.schema(
    [
        ("path", pa.string()),
        ("dv_id", pa.string()),
        ("size", pa.int64()),
        ("records", pa.int64()),
        ("deleted", pa.int64()),
        ("deleted_at", pa.int64()),
    ]
)
"""A file action; all null for another action.

path:  as the log has it. dv_id: the unique id of its deletion vector, empty without one.
size, records, deleted, deleted_at: as in `DIGESTED` of `rules/aggregates.py`.
Source: PROTOCOL.md, Add File and Remove File; Per-file Statistics; Deletion Vectors.
"""

_VECTOR_KEY = ("storageType", "pathOrInlineDv", "offset")
DIGESTED_COLUMNS = (
    "add.path",
    "add.size",
    "add.stats",
    "add.stats_parsed.numRecords",
    "add.deletionVector.cardinality",
    "remove.path",
    "remove.deletionTimestamp",
    *(f"{kind}.deletionVector.{field}" for kind in ("add", "remove") for field in _VECTOR_KEY),
)
"""What `digest_of` looks at, as columns of Parquet."""

ONE_ACTION = "at most one action in a row"

# Writers put it first. What is written otherwise is parsed as JSON.
_NUM_RECORDS_FIRST = r'^\{"numRecords":(?P<number>[+-]?[0-9]{1,18})[,}]'
_NUMBER_AS_TEXT = re.compile(r"\s*[+-]?[0-9]{1,19}\s*", re.ASCII)
_NUM_RECORDS = pa.schema([("numRecords", pa.int64())])


def digest_of(actions: pa.Table) -> pa.Table:
    """Return the digest (FILE_DIGEST) of actions, row by row.

    actions: columns `add` and `remove`, structs as the log has them; what they lack is null.
    Errors: TypeError, pa.ArrowException where a field is of another type than the protocol's; ValueError where a row
    holds both.
    """
    columns = {name: actions[name].combine_chunks() for name in ("add", "remove") if name in actions.column_names}
    add = _Fields(columns.get("add"), actions.num_rows)
    remove = _Fields(columns.get("remove"), actions.num_rows)
    removed_path, path = remove.text("path"), add.text("path")
    check_one_action(path, removed_path)
    vectors = [fields.struct("deletionVector") for fields in (add, remove)]
    path = _either(path, removed_path)
    ids = pc.coalesce(*map(_vector_id, vectors), pa.scalar("", pa.string()))
    has_vector = vectors[0].text("storageType").is_valid()
    arrays = {
        "path": path,
        "dv_id": pc.if_else(path.is_valid(), ids, None),
        "size": add.integer("size"),
        "records": _records(add),
        "deleted": pc.if_else(has_vector, pc.fill_null(vectors[0].integer("cardinality"), 0), None),
        "deleted_at": pc.if_else(removed_path.is_valid(), pc.fill_null(remove.integer("deletionTimestamp"), 0), None),
    }
    return pa.table(arrays, schema=FILE_DIGEST)


def check_one_action(added: pa.Array, removed: pa.Array | None = None) -> None:
    """Raise ValueError where a row holds an `add` and a `remove`, by their paths. None: there is no such column."""
    if removed is None or added.null_count == len(added) or removed.null_count == len(removed):
        return
    if pc.any(pc.and_(added.is_valid(), removed.is_valid())).as_py():
        raise ValueError(f"expected {ONE_ACTION}, found add and remove")


def one_action_sql() -> str:
    """Return SQL that is true, and raises where a row holds an `add` and a `remove`."""
    problem = f"raise_error('expected {ONE_ACTION}, found add and remove')"
    return f"if(add.path is not null and remove.path is not null, cast({problem} as boolean), true)"


class _Fields:
    """The fields of a struct column, of the type that is asked for; null where it lacks them."""

    def __init__(self, column: pa.StructArray | None, rows: int) -> None:
        if column is not None and not pa.types.is_struct(column.type):
            raise TypeError(f"expected a struct, found {column.type}")
        self._column = column
        self._rows = rows

    def __contains__(self, name: str) -> bool:
        return self._column is not None and self._column.type.get_field_index(name) >= 0

    def struct(self, name: str) -> _Fields:
        return _Fields(pc.struct_field(self._column, name) if name in self else None, self._rows)

    def text(self, name: str) -> pa.Array:
        return self._of(name, pa.string(), _TEXTS)

    def integer(self, name: str) -> pa.Array:
        return self._of(name, pa.int64(), (pa.types.is_integer,))

    def _of(self, name: str, kind: pa.DataType, accepted: tuple[Callable[[pa.DataType], bool], ...]) -> pa.Array:
        found = pc.struct_field(self._column, name) if name in self else pa.nulls(self._rows, kind)
        plain = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
        if not any(accepts(plain) for accepts in (*accepted, pa.types.is_null)):
            raise TypeError(f"expected {name} to be of type {kind}, found {found.type}")
        return found.cast(kind)


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def _vector_id(vector: _Fields) -> pa.Array:
    storage = vector.text("storageType")
    if storage.null_count == len(storage):
        return storage
    offset = vector.integer("offset").cast(pa.string())
    suffix = pc.fill_null(pc.binary_join_element_wise("@", offset, ""), "")
    return pc.binary_join_element_wise(storage, vector.text("pathOrInlineDv"), suffix, "")


def _either(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return the first of two that is not null, row by row; copied only where it must be."""
    if not first.null_count:
        return first
    return second if first.null_count == len(first) else pc.coalesce(first, second)


def _records(add: _Fields) -> pa.Array:
    """Return how many rows the statistics say that a file has: the JSON, and where there is none the struct."""
    said = _records_of_json(add.text("stats"))
    parsed_stats = add.struct("stats_parsed")
    if "numRecords" not in parsed_stats:
        return said
    return pc.if_else(add.text("stats").is_valid(), said, parsed_stats.integer("numRecords"))


def _records_of_json(stats: pa.StringArray) -> pa.Array:
    if stats.null_count == len(stats):
        return pa.nulls(len(stats), pa.int64())
    number = pc.struct_field(pc.extract_regex(stats, _NUM_RECORDS_FIRST), "number")
    # Arrow takes no sign before a number that is positive.
    found = pc.ascii_ltrim(number, "+").cast(pa.int64())
    others = pc.and_(stats.is_valid(), found.is_null())
    if not pc.any(others).as_py():
        return found
    return pc.replace_with_mask(found, others, _parsed_records(stats.filter(others)))


def _parsed_records(stats: pa.StringArray) -> pa.Array:
    regular = parsed_texts(stats, _NUM_RECORDS)
    if regular is not None:
        return regular["numRecords"].combine_chunks()
    if len(stats) > 1:  # one that is irregular costs the others no more than halving finds
        middle = len(stats) // 2
        return pa.concat_arrays([_parsed_records(stats.slice(0, middle)), _parsed_records(stats.slice(middle))])
    return pa.array([_number_in(stats[0].as_py())], pa.int64())


def _number_in(stats: str) -> int | None:
    try:
        values: Any = decode_json(stats)
    except ValueError:
        return None
    number = values.get("numRecords") if isinstance(values, dict) else None
    if isinstance(number, str) and _NUMBER_AS_TEXT.fullmatch(number):
        number = int(number)
    is_long = isinstance(number, int) and not isinstance(number, bool) and -(2**63) <= number < 2**63
    return number if is_long else None
