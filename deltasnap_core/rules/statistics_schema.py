"""The type for reading single statistics of a file: values as text, as in JSON. No Spark.

Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Any

StatisticPath = tuple[str, ...]
"""For example `("minValues", "a", "b")`, with column names as in the data files."""

_COUNTS = ("numRecords", "nullCount")
_WITH_ZONE = "'.*(Z|[+-][0-9]{2}:?[0-9]{2})$'"


def quoted(name: str) -> str:
    """Return a name as quoted SQL."""
    return f"`{name.replace('`', '``')}`"


def timestamp_bound_sql(text: str) -> str:
    """Return SQL for a bound of a timestamp. text: SQL. Null without an offset: the zone of such a time is unknown."""
    return f"if({text} rlike {_WITH_ZONE}, try_cast({text} as timestamp_ltz), null)"


def is_count(path: StatisticPath) -> bool:
    """Return whether a path leads to a count, not to a column value."""
    return path[0] in _COUNTS


def fields_at(paths: Collection[StatisticPath]) -> dict[str, Any]:
    """Return the fields on the given paths as a tree, ordered by name; a leaf is empty."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        reduce(lambda node, name: node.setdefault(name, {}), path, tree)
    return tree


def text_schema(paths: Collection[StatisticPath]) -> str:
    """Return the SQL type for the given paths: values as text, counts as numbers."""
    return _sql(fields_at(paths), ())


def _sql(fields: dict[str, Any], above: StatisticPath) -> str:
    types = []
    for name, inner in fields.items():
        path = (*above, name)
        data_type = _sql(inner, path) if inner else ("bigint" if is_count(path) else "string")
        types.append(f"{quoted(name)}: {data_type}")
    return f"struct<{', '.join(types)}>"
