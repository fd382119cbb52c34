"""The breakdown of every version: updated by commits, computed in one pass, and by the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.rules.totals.file_breakdown import FileBreakdown
from deltasnap_core.store.format.breakdown_file import breakdown_bytes, breakdown_of
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_identity import VersionIdentity
from deltasnap_core.store.rows.apply_step import ApplyStep
from tests.builders import Action, MemoryLogStore, write_log
from tests.core.replay.test_state_delta import law
from tests.core.store.rows.test_driver_rows import driver_rows, empty_version
from tests.oracle import OracleState, replay
from tests.random_logs import EXPIRED, random_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.random_logs import RandomLog

NOTHING = FileBreakdown.of(())
KEPT = {False: KEEP_ALL, True: Retention.after(EXPIRED)}


def reported(found: FileBreakdown) -> dict[str, Any]:
    """Return the visible values of a breakdown. The number of further files in it depends on its history."""
    return {
        "sizes": {number: tuple(sums) for number, sums in found.sizes.items()},
        "partitions": {values: tuple(sums) for values, sums in found.partitions.items()},
        "deletions": {} if found.deletions is None else {at: tuple(sums) for at, sums in found.deletions.items()},
        "largest": found.largest.files[:5],
        "smallest": found.smallest.files[:5],
    }


def expected(state: OracleState, retention: Retention) -> dict[str, Any]:
    """Return the same from the oracle's state, in plain Python."""
    sizes, partitions, deletions = Counter[int](), Counter[Any](), Counter[int]()
    bytes_of: Counter[Any] = Counter()
    without: Counter[int] = Counter()
    for add in state.files.values():
        number = next(n for n in range(252) if max(add["size"], 1) ** 4 < 2 ** (n + 1))
        values = tuple(sorted((name, value or None) for name, value in add["partitionValues"].items()))
        sizes[number] += 1
        partitions[values] += 1
        bytes_of[number] += add["size"]
        bytes_of[values] += add["size"]
    gone = [(remove, remove.get("deletionTimestamp") or 0) for remove in state.tombstones.values()]
    for remove, at in gone:
        if retention.keeps(at):
            deletions[at] += 1
            bytes_of["gone", at] += remove.get("size", 0)
            without[at] += "size" not in remove
    named = [(add["path"], add["size"]) for add in state.files.values()]
    return {
        "sizes": {number: (count, bytes_of[number]) for number, count in sizes.items()},
        "partitions": {values: (count, bytes_of[values]) for values, count in partitions.items()},
        "deletions": {at: (count, bytes_of["gone", at], without[at]) for at, count in deletions.items()},
        "largest": tuple(sorted(named, key=lambda each: (-each[1], each[0]))[:5]),
        "smallest": tuple(sorted(named, key=lambda each: (each[1], each[0]))[:5]),
    }


def apply_commits(
    folder: Path, previous: VersionManifest, commits: Mapping[int, Sequence[Action]], after: Retention, known: Any
) -> tuple[VersionManifest, FileBreakdown | None]:
    """Return the version after some commits, and its breakdown, both by the driver."""
    store = MemoryLogStore()
    files = [store.put_commit(version, *actions) for version, actions in commits.items()]
    last = max(commits)
    step = ApplyStep(
        previous=previous,
        batch=read_commits(store, files),
        merged=previous.changes,
        folder=f"changes-{last}",
        non_file=dict.fromkeys(commits, NonFileActions()),
        retentions={previous.version: previous.retention, **dict.fromkeys(commits, after)},
        with_groups=True,
    )
    applied = driver_rows(folder).apply(step)
    kept = after.min_file_retention_timestamp
    manifest = replace(previous, version=last, changes=(applied.changes,), min_file_retention_timestamp=kept)
    groups = [group for delta in applied.deltas.values() for group in delta.groups or ()]
    return manifest, known.updated(groups)


@pytest.mark.slow
@law(15)
@given(made=random_logs(), steps=st.lists(st.integers(1, 3), min_size=6, max_size=6), expires_from=st.integers(0, 6))
def test_updated_breakdown_matches_a_full_pass(made: RandomLog, steps: list[int], expires_from: int) -> None:
    states = replay(made.commits)
    manifest, known, first = (
        replace(empty_version(), version=-1, base=replace(empty_version().base, last=-1)),
        NOTHING,
        0,
    )
    with TemporaryDirectory() as folder:
        for count in steps:
            commits = {v: made.commits[v] for v in range(first, min(first + count, len(made.commits)))}
            if not commits:
                break
            first = max(commits) + 1
            retention = KEPT[max(commits) >= expires_from]
            manifest, updated = apply_commits(Path(folder), manifest, commits, retention, known)
            assert updated is not None
            counted = driver_rows(Path(folder)).breakdown(manifest)
            assert reported(updated) == reported(counted) == expected(states[max(commits)], retention)
            known = updated


@pytest.mark.slow
@law(12)
@given(made=random_logs())
def test_breakdown_is_read_back_as_it_was_written(made: RandomLog) -> None:
    manifest = replace(empty_version(), version=-1, base=replace(empty_version().base, last=-1))
    manifest = replace(manifest, identity=VersionIdentity(commit=None, chain="of this log"))
    with TemporaryDirectory() as folder:
        manifest, found = apply_commits(Path(folder), manifest, dict(enumerate(made.commits)), KEEP_ALL, NOTHING)
    assert found is not None
    cut = replace(found, largest=replace(found.largest, bound=("a b", 1 << 60)))
    for each in (cut, found):
        content = breakdown_bytes(each, manifest) or b""
        assert breakdown_of(content, manifest) == each
    others = (
        replace(manifest, identity=VersionIdentity(commit=None, chain="of another log")),
        replace(manifest, identity=None),
        replace(manifest, min_file_retention_timestamp=EXPIRED),
    )
    assert [breakdown_of(content, other) for other in others] == [None, None, None]


@pytest.mark.parametrize("place", [10, 0.5, 0.9, -100, -1])
def test_damaged_breakdown_is_rejected_or_read_completely(place: float) -> None:
    manifest = replace(empty_version(), identity=VersionIdentity(commit=None, chain="of this log"))
    content = breakdown_bytes(NOTHING, manifest)
    assert content is not None
    at = int(place * len(content)) if isinstance(place, float) else place % len(content)
    damaged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    try:
        assert breakdown_of(damaged, manifest) in (None, NOTHING)
    except ValueError as error:
        assert "expected the groups of a version" in str(error)  # noqa: PT017 - either is right
    with pytest.raises(ValueError, match="expected the groups of a version"):
        breakdown_of(content[: len(content) // 2], manifest)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@law(4)
@given(made=random_logs(), engine=st.sampled_from(("auto", "spark")), at_once=st.integers(1, 3))
def test_stored_breakdown_of_every_version_matches_a_full_pass(
    spark: SparkSession, made: RandomLog, engine: Any, at_once: int
) -> None:
    from deltasnap_core.snapshot.delta_log import DeltaLog
    from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
    from deltasnap_core.store.snapshot_store import SnapshotStore
    from deltasnap_core.store.versions.stored_breakdowns import StoredBreakdowns

    states = replay(made.commits)
    with TemporaryDirectory() as folder:
        write_log(Path(folder, "t"), dict(enumerate(made.commits)))
        log = DeltaLog.for_table(spark, Path(folder, "t"), options=SnapshotOptions(engine=engine))
        store = SnapshotStore.open(spark, Path(folder, "store"), engine=engine)
        store.write_range("t", log, 0, 0)
        assert reported(store.file_breakdown("t", 0)) == expected(states[0], store.manifest("t", 0).retention)
        for first in range(1, len(states), at_once):
            last = min(first + at_once, len(states)) - 1
            store.write_range("t", log, first, last)
            manifest = store.manifest("t", last)
            stored = StoredBreakdowns(stored=store._reader.table("t")).read(manifest)
            assert stored is not None
            counted = store._reader.version("t", manifest).breakdown()
            assert reported(stored) == reported(counted) == expected(states[last], manifest.retention)
