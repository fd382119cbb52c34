"""The SQL types of statistics, for reading single ones as text and for writing them. No Spark.

Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import reduce
from typing import Any

from deltasnap_core.rules.texts.sql_text import quoted, string_sql
from deltasnap_core.rules.texts.typed_texts import typed_sql

StatisticPath = tuple[str, ...]
"""For example `("minValues", "a", "b")`, with column names as in the data files."""

_COUNTS = ("numRecords", "nullCount")
_EXACT_DIGITS = 15
_PRECISION = re.compile(r"decimal\((\d+)")
_CUT_CHARACTER = string_sql("[?\ufffd]")
_MAYBE_APPENDED = string_sql("?\ufffd\x7f\uffff\U0010ffff")
_USUAL_LENGTH = 32
_WITH_ZONE = "'.*(Z|[+-][0-9]{2}:?[0-9]{2})$'"


class StatsPolicy(Enum):
    """Which statistics of files are read. They are by far the largest column of most logs.

    ALL:         every action with all its fields, as in the log.
    NUM_RECORDS: only the fields that the measures need; `stats` is read only for the number of records.
    NONE:        every action, with `stats` null.
    """

    ALL = "all"
    NUM_RECORDS = "num_records"
    NONE = "none"


def bound_sql(text: str, data_type: str, kind: str) -> str | None:
    """Return SQL for a bound in the type of its column. text: SQL. Null if it is invalid: then the bound is unknown.

    kind: `minValues` or `maxValues`. A decimal of more than 15 digits is widened: Spark's parser of JSON and some
    writers round it to a float. Some also convert it to a 64-bit integer, which cuts off greater values.
    A timestamp without an offset is invalid: its zone is unknown. Returns None for a type without bounds.
    """
    precision = _PRECISION.match(data_type)
    if precision is not None and int(precision[1]) > _EXACT_DIGITS:
        cut_off, sign = ("-9223372036854775808D", "-") if kind == "minValues" else ("9223372036854775807D", "+")
        bound = f"nullif({typed_sql(text, 'double')}, {cut_off})"
        return f"try_cast(({bound} {sign} abs({bound}) * 1e-15D) as {data_type})"
    typed = text if data_type == "string" else typed_sql(text, data_type)
    return f"if({text} rlike {_WITH_ZONE}, {typed}, null)" if data_type == "timestamp" else typed


def sure_text_sql(bound: str) -> str:
    """Return SQL for the part of a string's bound that is also in the value, wherever the writer cut it. bound: SQL.

    A writer may cut a value within a character, and put `?` or U+FFFD in the place of the rest. It may append a
    character that is greater than most.
    """
    return f"trim(trailing {_MAYBE_APPENDED} from {bound})"


def is_cut_character_sql(bound: str) -> str:
    """Return SQL for whether a string's bound may have `?` or U+FFFD in the place of half of a character. bound: SQL.

    Writers cut after 32 UTF-16 units, so it may if one of these is the last unit. Elsewhere it is the value's own, or
    U+FFFD was appended.
    """
    sure, whole = (f"length(encode({text}, 'UTF-16BE')) / 2" for text in (sure_text_sql(bound), bound))
    return f"({sure} < {_USUAL_LENGTH} and {whole} >= {_USUAL_LENGTH} and {bound} rlike {_CUT_CHARACTER})"


def is_count(path: StatisticPath) -> bool:
    """Return whether a path leads to a count, not to a column value."""
    return path[0] in _COUNTS


def fields_at(paths: Iterable[StatisticPath]) -> dict[str, Any]:
    """Return the fields on the given paths as a tree, in the order given; a leaf is empty."""
    tree: dict[str, Any] = {}
    for path in paths:
        reduce(lambda node, name: node.setdefault(name, {}), path, tree)
    return tree


def struct_type(types: Mapping[StatisticPath, str]) -> str:
    """Return the SQL type of a struct with a field of the given type at each path, in the order given."""
    return _struct_type(fields_at(types), (), types)


def _struct_type(fields: dict[str, Any], above: StatisticPath, types: Mapping[StatisticPath, str]) -> str:
    parts = []
    for name, inner in fields.items():
        path = (*above, name)
        parts.append(f"{quoted(name)}: {_struct_type(inner, path, types) if inner else types[path]}")
    return f"struct<{', '.join(parts)}>"


def text_schema(paths: Collection[StatisticPath]) -> str:
    """Return the SQL type for the given paths, ordered by name: values as text, counts as numbers."""
    return struct_type({path: "bigint" if is_count(path) else "string" for path in sorted(paths)})
