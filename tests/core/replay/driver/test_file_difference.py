"""The files that only one of two versions has, from the commits between them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import CorruptLogError, TableLog
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.replay.driver.file_difference import FileDifference
from deltasnap_core.support import file_difference, read_commits
from tests.builders import VECTOR_AT_4, Action, add, metadata, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint

FIRST: list[Action] = [protocol(), metadata()]
OLD = VECTOR_AT_4
NEW = {**OLD, "offset": 90}
OLD_ID, NEW_ID = (f"u{OLD['pathOrInlineDv']}@{vector['offset']}" for vector in (OLD, NEW))

Files = list[tuple[str, str, int | None]]


def difference(table: Path, first: int, last: int) -> FileDifference:
    log = TableLog.for_path(table)
    listing = log.list()
    batch = read_commits(log.store, [listing.commits[version] for version in range(first + 1, last + 1)])
    found = file_difference(log.store, log.log_path, log.at(version=first), batch)
    assert found is not None
    return found


def files(found: FileDifference) -> tuple[Files, Files]:
    """Return the added and the removed files."""
    added, removed = (sorted(tuple(row.values()) for row in rows.to_pylist()) for rows in (found.added, found.removed))
    return added, removed


def changed(table: Path, versions: Mapping[int, list[Action]], first: int = 0) -> tuple[Files, Files]:
    write_log(table, versions)
    return files(difference(table, first, max(versions)))


def test_files_of_one_version_only_are_found_with_their_sizes(tmp_path: Path) -> None:
    versions = {
        0: [*FIRST, add("a", size=1), add("b", size=2), add("c", size=3)],
        1: [remove("b"), add("d", size=4)],
        2: [remove("a"), add("e", size=5)],
    }
    assert changed(tmp_path, versions) == ([("d", "", 4), ("e", "", 5)], [("a", "", 1), ("b", "", 2)])


def test_file_that_both_versions_have_or_lack_is_no_difference(tmp_path: Path) -> None:
    versions = {
        0: [*FIRST, add("kept"), add("written again"), add("removed and restored")],
        1: [add("came and went"), remove("removed and restored"), remove("never there")],
        2: [remove("came and went"), add("removed and restored", size=9), add("written again", size=9)],
    }
    assert changed(tmp_path, versions) == ([], [])


def test_file_with_another_deletion_vector_is_another_file(tmp_path: Path) -> None:
    versions = {
        0: [*FIRST, add("a", size=7, deletionVector=OLD), add("b", size=8)],
        1: [remove("a", deletionVector=OLD), add("a", size=7, deletionVector=NEW)],
        2: [remove("b"), add("b", size=8, deletionVector=OLD)],
    }
    added, removed = changed(tmp_path, versions)
    assert added == [("a", NEW_ID, 7), ("b", OLD_ID, 8)]
    assert removed == [("a", OLD_ID, 7), ("b", "", 8)]


def test_commits_without_file_actions_make_no_difference(tmp_path: Path) -> None:
    assert changed(tmp_path, {0: [*FIRST, add("a")], 1: [metadata(configuration={"x": "1"})]}) == ([], [])


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-json", "v2-parquet-sidecars"])
def test_removed_file_is_found_in_the_checkpoint_in_any_spelling(tmp_path: Path, style: CheckpointStyle) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a%20b", size=5), add("gone"), add("other")], 1: [remove("gone")]})
    write_checkpoint(log, 1, style, [*FIRST, add("a%20b", size=5), add("other"), remove("gone")])
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    versions = {2: [add("c", size=6)], 3: [remove("a b"), remove("gone")]}
    assert changed(tmp_path, versions, first=1) == ([("c", "", 6)], [("a%20b", "", 5)])


def test_commit_after_the_checkpoint_replaces_what_the_checkpoint_has(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a"), add("b", size=1)], 1: [remove("a"), add("b", size=2)]})
    write_checkpoint(log, 0, "classic", [*FIRST, add("a"), add("b", size=1)])
    assert changed(tmp_path, {2: [remove("a"), remove("b")]}, first=1) == ([], [("b", "", 2)])


def test_damaged_checkpoint_is_replaced_by_the_commits(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a", size=5)], 1: []})
    (file,) = write_checkpoint(log, 1, "classic", [*FIRST, add("a", size=5)])
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(40) + content[44:])
    write_log(tmp_path, {2: [remove("a")]})
    found = difference(tmp_path, 1, 2)
    assert (files(found), found.assumed) == (([], [("a", "", 5)]), None)


def test_files_of_an_unreadable_version_are_those_that_the_commits_remove_first(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a")], 1: []})
    write_checkpoint(log, 1, "classic", [*FIRST, add("a")])
    write_log(
        tmp_path,
        {
            2: [remove("a", size=5), add("new", size=6), remove("moved"), add("moved", deletionVector=OLD)],
            3: [remove("new"), add("later", size=7)],
        },
    )
    version, commits = TableLog.for_path(tmp_path).at(version=1), {2: "", 3: ""}
    _ = version.protocol  # read before the files of the version are lost
    store = TableLog.for_path(tmp_path).store
    batch = read_commits(store, [TableLog.for_path(tmp_path).list().commits[number] for number in commits])
    for file in (log / commit_file(0), *log.glob("*.checkpoint.parquet")):
        content: Any = file.read_bytes()
        file.write_bytes(content[:4] + bytes(len(content) - 12) + content[-8:])
    found = file_difference(store, version.segment.log_path, version, batch)
    assert found is not None
    assert isinstance(found.assumed, CorruptLogError)
    added, removed = files(found)
    assert added == [("later", "", 7), ("moved", OLD_ID, 1)]
    assert [path for path, _, _ in removed] == ["a", "moved"]
