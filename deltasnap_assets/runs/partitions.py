"""Versions as partition keys: one dynamic partitions definition a table, the version in decimal as key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import dagster as dg


def version_partitions(table_name: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of every asset of a table."""
    return dg.DynamicPartitionsDefinition(name=f"{table_name}_versions")


def key_of(version: int) -> str:
    """The partition key of a version."""
    return str(version)


def version_of(key: str) -> int:
    """The version that a partition key stands for. Errors: `ValueError` for a key that someone made up."""
    if not (key.isascii() and key.isdecimal() and key == str(int(key))):
        raise ValueError(f"Partition {key!r} is no version of a table: expected a decimal number such as 12.")
    return int(key)


def versions_of(keys: Iterable[str]) -> tuple[int, ...]:
    """The versions of partition keys, ascending: Dagster hands keys out in the order of their insertion, or in none."""
    return tuple(sorted(version_of(key) for key in keys))


def contiguous(versions: Iterable[int], order: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Cut ascending versions into ranges (first, last) without a gap, each a range of partition keys too.

    `order` is the order in which Dagster knows the keys: a range of keys is what lies between two of them in that
    order, so that a version which came late cannot share a range with its neighbours.
    """
    place = {version: index for index, version in enumerate(order)}
    first = last = None
    for version in versions:
        follows = last is not None and version == last + 1
        if first is None or last is None:
            first = version
        elif not follows or (order and place[version] != place[last] + 1):
            yield first, last
            first = version
        last = version
    if first is not None and last is not None:
        yield first, last
