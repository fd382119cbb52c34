"""The versions of a table kept in numeric order among Dagster's dynamic partitions, and the highest of them last.

Dagster keeps dynamic partitions in the order of their insertion: its UI, its backfills and what it calls the last
partition all go by it. A version that was added after a higher one is moved by deleting keys and adding them again;
what was materialized for a key is kept by Dagster meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import dagster as dg

from deltasnap_assets.runs.partitions import key_of, known_versions, version_partitions

# Deleting and adding a key takes 4 to 8 ms on SQLite, and a sensor has a minute.
MOST_MOVES = 2_000


def versions_to_move(keys: Sequence[str]) -> tuple[int, ...]:
    """Return the versions to move to the end of the keys, ascending: then all versions ascend, and the last key is one.

    Nothing moves where that holds already. Keys that are no versions stay where they are.
    """
    versions = known_versions(keys)
    if not versions:
        return ()
    place = {key: index for index, key in enumerate(keys)}
    places = [place[key_of(version)] for version in versions]
    in_order = next((i for i, (one, next_one) in enumerate(pairwise(places), start=1) if next_one < one), len(places))
    return versions[in_order:] if in_order < len(versions) or places[-1] == len(keys) - 1 else versions[-1:]


def sort_partitions(instance: dg.DagsterInstance, table_name: str, most: int = MOST_MOVES) -> int:
    """Bring the partitions of a table into order, by at most so many moves, and return how many were made.

    Key by key: whoever interrupts it leaves an order that the next call goes on from, and at most one key to be added
    again. Not to be called while a run of the table is under way.
    """
    name = version_partitions(table_name).name or ""
    moves = versions_to_move(instance.get_dynamic_partitions(name))[:most]
    for version in moves:
        instance.delete_dynamic_partition(name, key_of(version))
        instance.add_dynamic_partitions(name, [key_of(version)])
    return len(moves)
