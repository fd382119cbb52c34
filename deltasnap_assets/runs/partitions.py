"""Versions as partition keys: one dynamic partitions definition a table, the version in decimal as key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import dagster as dg

from deltasnap_core import contiguous_runs


class VersionPartitions(dg.DynamicPartitionsDefinition):
    """Dynamic partitions whose ranges are ranges of versions, whatever else was added among the keys, and when.

    Dagster's own are ranges in the order of insertion. A range of one key is that key, known to the instance or not: so
    a stored version can be loaded where there is no instance that ever heard of it. Dagster's other processes see a
    plain `DynamicPartitionsDefinition` of this name, to which it is equal.
    """

    def __hash__(self) -> int:
        return hash(dg.DynamicPartitionsDefinition(name=self.name))

    def get_partition_keys_in_range(self, partition_key_range: dg.PartitionKeyRange) -> Sequence[str]:
        """Return the keys of the versions from start to end, ascending. Errors: ValueError where one is no version."""
        first, last = version_of(partition_key_range.start), version_of(partition_key_range.end)
        if first == last:
            return [key_of(first)]
        held, asked = _held_keys.get(), (self.name, first, last)
        if held is not None and asked in held:
            return held[asked]
        known = known_versions(self.get_partition_keys())
        found = [key_of(version) for version in known if first <= version <= last]
        if held is not None:
            held[asked] = found
        return found


_held_keys: ContextVar[dict[tuple[str | None, int, int], Sequence[str]] | None] = ContextVar("held_keys", default=None)


@contextmanager
def keys_read_once() -> Iterator[None]:
    """Ask the instance only once for the keys of a range: Dagster asks with each thing said of one of them.

    Keys that are added meanwhile are not seen.
    """
    token = _held_keys.set({})
    try:
        yield
    finally:
        _held_keys.reset(token)


def version_partitions(table_name: str) -> VersionPartitions:
    """Return the partitions of every asset of a table."""
    return VersionPartitions(name=f"{table_name}_versions")


def key_of(version: int) -> str:
    """Return the partition key of a version."""
    return str(version)


def version_of(key: str) -> int:
    """Return the version that a partition key stands for. Errors: `ValueError` for a key that someone made up."""
    version = _version_or_none(key)
    if version is None:
        raise ValueError(f"Partition {key!r} is no version of a table: expected a decimal number such as 12.")
    return version


def versions_of(keys: Iterable[str]) -> tuple[int, ...]:
    """Return the versions of partition keys, ascending: Dagster hands keys out by insertion, or in no order."""
    return tuple(sorted(version_of(key) for key in keys))


def known_versions(keys: Iterable[str]) -> tuple[int, ...]:
    """Return the versions among partition keys, ascending; keys that are no versions were added by hand."""
    return tuple(sorted(version for key in keys if (version := _version_or_none(key)) is not None))


def contiguous(versions: Iterable[int], order: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of ascending versions without a gap, each a range of partition keys too.

    `order` is the order in which Dagster knows the keys: a range of keys is what lies between two of them in that
    order, so that a version which came late cannot share a range with its neighbours.
    """
    place = {version: index for index, version in enumerate(order)}

    def follows(earlier: int, later: int) -> bool:
        return later == earlier + 1 and (not order or place[later] == place[earlier] + 1)

    return contiguous_runs(versions, follows=follows)


def _version_or_none(key: str) -> int | None:
    # The length first: a text of a hundred thousand digits is no number to Python.
    is_version = len(key) < 20 and key.isascii() and key.isdecimal() and key == str(int(key))
    return int(key) if is_version else None
