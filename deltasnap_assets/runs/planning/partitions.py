"""Versions as partition keys: one dynamic partitions definition per table, with the decimal version as the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import dagster as dg

from deltasnap_core import DeltaSnapError
from deltasnap_core.support import contiguous_runs

_SUFFIX = "_versions"


class VersionPartitions(dg.DynamicPartitionsDefinition):
    """Dynamic partitions whose key ranges are version ranges, regardless of the order of insertion and of other keys.

    In Dagster's own class, ranges and the last partition follow the order of insertion. Here a range of one key is that
    key, even if the instance does not know it: a stored version can be loaded with a new instance. For Dagster's other
    processes this is a plain `DynamicPartitionsDefinition` of the same name, to which it is equal.
    """

    def __hash__(self) -> int:
        return hash(dg.DynamicPartitionsDefinition(name=self.name))

    def get_partition_keys_in_range(self, partition_key_range: dg.PartitionKeyRange) -> Sequence[str]:
        """Return the keys of the versions from start to end, ascending. Errors: as `version_of`."""
        table = (self.name or "").removesuffix(_SUFFIX)
        first, last = version_of(partition_key_range.start, table), version_of(partition_key_range.end, table)
        if first == last:
            return [key_of(first)]
        held, key = _held_keys.get(), (self.name, first, last)
        if held is not None and key in held:
            return held[key]
        known = known_versions(self.get_partition_keys())
        found = [key_of(version) for version in known if first <= version <= last]
        if held is not None:
            held[key] = found
        return found

    def get_last_partition_key(self) -> str | None:
        """Return the highest version; None: there is none."""
        versions = known_versions(self.get_partition_keys())
        return key_of(versions[-1]) if versions else None


LatestVersion = dg.LastPartitionMapping
"""The partition mapping to the highest version of a table.

    ins={"files": dg.AssetIn(["events", "all_files"], partition_mapping=LatestVersion())}

Other processes of Dagster, such as the UI and the daemon, use the last partition. That is the same one, because
partitions are kept in numeric order: see `partition_order`.
"""

_held_keys: ContextVar[dict[tuple[str | None, int, int], Sequence[str]] | None] = ContextVar("held_keys", default=None)


@contextmanager
def keys_read_once() -> Iterator[None]:
    """Query the instance only once for the keys of a range. Dagster repeats the query for each metadata entry.

    Keys added in the meantime are not visible.
    """
    token = _held_keys.set({})
    try:
        yield
    finally:
        _held_keys.reset(token)


def version_partitions(table_name: str) -> VersionPartitions:
    """Return the partitions of every asset of a table."""
    return VersionPartitions(name=f"{table_name}{_SUFFIX}")


def key_of(version: int) -> str:
    """Return the partition key of a version."""
    return str(version)


def version_of(key: str, table: str) -> int:
    """Return the version of a partition key of a table. Errors: DeltaSnapError for a key that a user added."""
    version = _version_or_none(key)
    if version is None:
        raise DeltaSnapError(
            f"The partition {key!r} of the table {table} is not a version: expected a decimal number such as 12. If "
            f"Dagster lists it, delete it: instance.delete_dynamic_partition({table + _SUFFIX!r}, {key!r})."
        )
    return version


def versions_of_keys(keys: Iterable[str], table: str) -> tuple[int, ...]:
    """Return the versions of partition keys of a table, ascending. Dagster gives keys in any order.

    Errors: as `version_of`.
    """
    return tuple(sorted(version_of(key, table) for key in keys))


def known_versions(keys: Iterable[str]) -> tuple[int, ...]:
    """Return the versions among partition keys, ascending. Skips keys that are not versions, which users may add."""
    return tuple(sorted(versions_in_order(keys)))


def versions_in_order(keys: Iterable[str]) -> tuple[int, ...]:
    """Return the versions among partition keys, in the order of the keys. Skips keys that are not versions."""
    return tuple(version for key in keys if (version := _version_or_none(key)) is not None)


def contiguous(versions: Iterable[int], order: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last) of ascending versions without gaps; each is also a range of partition keys.

    `order` is the order of the keys in Dagster. There, a range covers the keys between two keys in that order, so a
    version that was added late cannot share a range with its neighbors.
    """
    place = {version: index for index, version in enumerate(order)}

    def follows(earlier: int, later: int) -> bool:
        return later == earlier + 1 and (not order or place[later] == place[earlier] + 1)

    return contiguous_runs(versions, follows=follows)


def _version_or_none(key: str) -> int | None:
    # Check the length first: Python rejects integers with very many digits.
    is_version = len(key) < 20 and key.isascii() and key.isdecimal() and key == str(int(key))
    return int(key) if is_version else None
