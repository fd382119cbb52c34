"""Keeps the versions of a table in numeric order among Dagster's dynamic partitions, the highest version last.

Dagster keeps dynamic partitions in the order of insertion, and its UI, its backfills and its "last partition" use that
order. A version that was added after a higher one is moved: keys are deleted and added again. Dagster keeps the
materializations of a key in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import dagster as dg

from deltasnap_assets.runs.planning.partitions import key_of, known_versions, version_partitions

# Deleting and adding a key takes 4 to 8 ms on SQLite. A sensor tick may take a minute.
MAX_MOVES = 2_000


def versions_to_move(keys: Sequence[str]) -> tuple[int, ...]:
    """Return the versions to move to the end of the keys so that all versions ascend and one is the last key.

    Ascending; empty if the order is already correct. Keys that are not versions stay in place.
    """
    versions = known_versions(keys)
    if not versions:
        return ()
    place = {key: index for index, key in enumerate(keys)}
    places = [place[key_of(version)] for version in versions]
    in_order = next((i for i, (one, next_one) in enumerate(pairwise(places), start=1) if next_one < one), len(places))
    return versions[in_order:] if in_order < len(versions) or places[-1] == len(keys) - 1 else versions[-1:]


def sort_partitions(instance: dg.DagsterInstance, table_name: str, most: int = MAX_MOVES) -> int:
    """Sort the partitions of a table with at most `most` moves. Return the number of moves.

    Moves one key at a time. After an interruption, the next call continues, and at most one key is missing and has to
    be added again. Do not call it while a run of the table is in progress.
    """
    name = version_partitions(table_name).name or ""
    moves = versions_to_move(instance.get_dynamic_partitions(name))[:most]
    for version in moves:
        instance.delete_dynamic_partition(name, key_of(version))
        instance.add_dynamic_partitions(name, [key_of(version)])
    return len(moves)
