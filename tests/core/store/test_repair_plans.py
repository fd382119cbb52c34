"""What a repair of a damaged log would write, and which logs are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltasnap_core import SnapshotStore, TableLog
from deltasnap_core.errors import RepairRefusedError, UnsupportedWriterError
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, checkpoint_file, commit_file
from deltasnap_core.store.repair import Repair
from tests.builders import add, content, protocol, write_log
from tests.core.store.repair_builders import (
    DAMAGES,
    LATEST,
    MIDDLE,
    Damage,
    commits_of_table,
    copy_of,
    make_log,
    put_checkpoint,
)
from tests.without_spark import log_without_spark


@pytest.fixture
def log(store: SnapshotStore, tmp_path: Path) -> Path:
    """The stored log of the table, still whole."""
    folder = make_log(tmp_path / "table")
    store.write_range("t", log_without_spark(TableLog.for_path(folder.parent)), 0, LATEST)
    return folder


def plan(store: SnapshotStore, log: Path) -> Repair:
    return store.repair("t", log_without_spark(TableLog.for_path(log.parent)))


def files_of(log: Path) -> dict[str, bytes]:
    return {str(file.relative_to(log)): file.read_bytes() for file in log.rglob("*") if file.is_file()}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_checkpoint_is_of_the_first_stored_version_after_the_damage(
    damage: Damage, store: SnapshotStore, log: Path
) -> None:
    damage.do(log)
    before = files_of(log)
    found = plan(store, log)
    assert (found.version, bool(found.renamed)) == (damage.version, damage.renames)
    assert tuple(found.unreadable) == damage.unreadable
    assert (found.is_needed, found.has_hint, found.is_written) == (True, True, False)
    assert found.problems
    assert files_of(log) == before


def test_moved_table_is_recognized_by_its_commits(store: SnapshotStore, log: Path, tmp_path: Path) -> None:
    moved = copy_of(log.parent, tmp_path / "elsewhere")
    DAMAGES["lost commit"].do(moved)
    assert plan(store, moved).version == MIDDLE


def test_whole_log_needs_no_repair(store: SnapshotStore, log: Path) -> None:
    put_checkpoint(log, MIDDLE)
    assert plan(store, log).to_json() == {
        "table": f"file://{log.parent}",
        "is_needed": False,
        "is_written": False,
        "version": None,
        "renamed": {},
        "replaces_hint": False,
        "unreadable_versions": [],
        "checkpoint": None,
        "problems": [],
    }


def test_damage_behind_a_sound_checkpoint_of_the_next_version_needs_no_repair(store: SnapshotStore, log: Path) -> None:
    put_checkpoint(log, MIDDLE, clean=False)
    DAMAGES["lost commit"].do(log)
    found = plan(store, log)
    assert (found.is_needed, tuple(found.unreadable)) == (False, (5,))


def test_wrong_hint_beside_a_sound_checkpoint_is_only_replaced(store: SnapshotStore, log: Path) -> None:
    put_checkpoint(log, MIDDLE, clean=False)
    (log / LAST_CHECKPOINT).write_text(json.dumps({"version": 9, "size": 1}))
    found = plan(store, log)
    assert (found.version, found.has_hint, found.is_needed) == (None, True, True)


def test_sound_later_checkpoint_keeps_its_hint(store: SnapshotStore, log: Path) -> None:
    put_checkpoint(log, 10, clean=False)
    DAMAGES["lost commit"].do(log)
    found = plan(store, log)
    assert (found.version, found.has_hint) == (MIDDLE, False)


def test_version_that_is_not_stored_is_passed_over(store: SnapshotStore, tmp_path: Path) -> None:
    folder = make_log(tmp_path / "table")
    store.write_versions("t", log_without_spark(TableLog.for_path(folder.parent)), [4, 8, 9])
    DAMAGES["lost commit"].do(folder)
    found = plan(store, folder)
    assert (found.version, tuple(found.unreadable)) == (8, (5, 6, 7))


def test_version_whose_files_the_store_lost_is_passed_over(store: SnapshotStore, log: Path, tmp_path: Path) -> None:
    DAMAGES["lost commit"].do(log)
    manifest = next((tmp_path / "store" / "t" / "manifests").glob(f"*{MIDDLE:020d}.json"))
    manifest.write_text("{}")
    assert plan(store, log).version == MIDDLE + 1


REFUSED = {
    "damaged newest commit": (lambda log: (log / commit_file(LATEST)).write_text("{"), "newest commit"),
    "lost newest commit": (lambda log: (log / commit_file(LATEST)).unlink(), "later versions 12"),
    "commit of another writer": (
        lambda log: write_log(log.parent, {9: [add("another file of another writer")]}),
        "forked|not the stored one",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_log_that_the_store_does_not_prove_is_refused(case: tuple, store: SnapshotStore, log: Path) -> None:  # type: ignore[type-arg]
    do, text = case
    DAMAGES["lost commit"].do(log)
    do(log)
    before = files_of(log)
    with pytest.raises(RepairRefusedError, match=text):
        plan(store, log)
    assert files_of(log) == before


def test_only_a_commit_that_is_there_is_moved_away(store: SnapshotStore, log: Path) -> None:
    (log / commit_file(LATEST)).write_text("{")
    advised = f"move that file out of the log: version {LATEST - 1} is then the latest"
    with pytest.raises(RepairRefusedError, match=advised):
        plan(store, log)
    put_checkpoint(log, LATEST, clean=False)[0].write_bytes(b"PAR1")
    (log / commit_file(LATEST)).unlink()
    with pytest.raises(RepairRefusedError, match=rf"is damaged or missing.*Restore {commit_file(LATEST)} .* log\.$"):
        plan(store, log)


def test_table_that_was_created_again_is_refused(store: SnapshotStore, log: Path) -> None:
    commits = commits_of_table()
    for number, commit in enumerate(commits):
        commit[0]["commitInfo"]["operation"] = "CREATE AGAIN"
        (log / commit_file(number)).write_bytes(content(commit))
    DAMAGES["lost commit"].do(log)
    with pytest.raises(RepairRefusedError, match="recreated"):
        plan(store, log)


def test_table_that_was_never_stored_is_refused(store: SnapshotStore, tmp_path: Path) -> None:
    with pytest.raises(RepairRefusedError, match="no version"):
        plan(store, make_log(tmp_path / "table"))


def test_damaged_latest_commit_under_a_sound_checkpoint_needs_no_repair(store: SnapshotStore, log: Path) -> None:
    put_checkpoint(log, LATEST, clean=False)
    (log / commit_file(LATEST)).write_text("{")
    assert not plan(store, log).is_needed


def test_writer_features_of_a_later_commit_are_respected(store: SnapshotStore, log: Path) -> None:
    later = protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint", "strangeFeature"])
    write_log(log.parent, {LATEST + 1: [later]})
    DAMAGES["lost commit"].do(log)
    with pytest.raises(UnsupportedWriterError, match="strangeFeature"):
        plan(store, log)


def test_empty_commit_that_was_stored_empty_is_no_damage(store: SnapshotStore, tmp_path: Path) -> None:
    folder = make_log(tmp_path / "table")
    (folder / commit_file(5)).write_bytes(b"")
    store.write_range("t", log_without_spark(TableLog.for_path(folder.parent)), 0, LATEST)
    assert not plan(store, folder).is_needed
    assert not (folder / checkpoint_file(5)).exists()
