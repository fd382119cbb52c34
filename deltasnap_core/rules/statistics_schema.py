"""The type in which single statistics of a file are read: values as text, as their JSON has them. No Spark.

Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Any

StatisticPath = tuple[str, ...]
"""`("minValues", "a", "b")`, by the names of data files."""

_COUNTS = ("numRecords", "nullCount")


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return f"`{name.replace('`', '``')}`"


def is_count(path: StatisticPath) -> bool:
    """Whether what is there is a number, and no value of a column."""
    return path[0] in _COUNTS


def fields_at(paths: Collection[StatisticPath]) -> dict[str, Any]:
    """Return the fields that lead to paths, in the order of their names, each with those inside it; none at the end."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        reduce(lambda node, name: node.setdefault(name, {}), path, tree)
    return tree


def text_schema(paths: Collection[StatisticPath]) -> str:
    """Return the type as SQL has it: text, counts as numbers."""
    return _sql(fields_at(paths), ())


def _sql(fields: dict[str, Any], above: StatisticPath) -> str:
    types = []
    for name, inner in fields.items():
        path = (*above, name)
        data_type = _sql(inner, path) if inner else ("bigint" if is_count(path) else "string")
        types.append(f"{quoted(name)}: {data_type}")
    return f"struct<{', '.join(types)}>"
