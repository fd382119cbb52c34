"""Checkpoints that can be read, but have other contents than the hints state."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltasnap_core import CorruptLogError, ProblemKind, TableLog
from deltasnap_core.log.checkpoints import checkpoint_doubts
from deltasnap_core.log.checkpoints.checkpoint_pages import read_every_page
from deltasnap_core.log.checkpoints.parquet_footer import null_count
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, SIDECAR_FOLDER, checksum_file, commit_file
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from tests.builders import Action, CountingLogStore, add, content, metadata, protocol, write_log
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.core.log.condition.table_condition_builders import condition
from tests.without_spark import log_without_spark

FIRST = [protocol(), metadata()]
FILES = [add(f"f{number}") for number in range(6)]


def cut_table(table: Path, style: CheckpointStyle, *, files: int = 3, keeps_commits: bool = True) -> Path:
    """Write versions 0 to 3, and a checkpoint of version 2 that has only some of its six files."""
    log = write_log(table, {0: [*FIRST, *FILES[:4]], 1: [FILES[4]], 2: [FILES[5]], 3: [add("last")]})
    write_checkpoint(log, 2, style, [*FIRST, *FILES[:files]])
    for version in () if keeps_commits else range(3):
        (log / commit_file(version)).unlink()
    return log


def put_hint(log: Path, **fields: Any) -> None:
    (log / LAST_CHECKPOINT).write_text(json.dumps({"version": 2, "size": 8, **fields}))


def put_checksum(log: Path, num_files: int, version: int = 2) -> None:
    values = {"tableSizeBytes": num_files, "numFiles": num_files, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(version)).write_text(json.dumps(values))


def num_files(log: Path) -> int:
    return log_without_spark(TableLog.for_path(log.parent)).snapshot.computed_state.num_of_files


def parts_of(style: CheckpointStyle) -> dict[str, int]:
    return {"parts": 2} if style == "multipart" else {}


@pytest.mark.parametrize("style", STYLES)
def test_checkpoint_with_fewer_files_than_the_hint_states_is_replaced_by_the_commits(
    tmp_path: Path, style: CheckpointStyle
) -> None:
    log = cut_table(tmp_path / "t", style)
    put_hint(log, numOfAddFiles=6, **parts_of(style))
    assert num_files(log) == 7
    (fault,) = condition(tmp_path / "t").faults
    assert (fault.kind, fault.mark, fault.read_instead) == (
        ProblemKind.DOUBTED_CHECKPOINT,
        "warning",
        "an older checkpoint or the commits",
    )
    assert fault.reason == "expected 6 files, as _last_checkpoint states, found 3"
    first = next(each for each in sorted(log.iterdir()) if ".checkpoint" in each.name)
    assert str(fault.where.file).endswith(first.name)


def test_checkpoint_with_fewer_files_than_stated_is_replaced_by_an_older_checkpoint_beside_its_commits(
    tmp_path: Path,
) -> None:
    log = cut_table(tmp_path / "t", "classic")
    write_checkpoint(log, 1, "classic", [*FIRST, *FILES[:5]])
    put_hint(log, numOfAddFiles=6)
    assert num_files(log) == 7
    (fault,) = condition(tmp_path / "t").faults
    assert (fault.kind, fault.read_instead) == (ProblemKind.DOUBTED_CHECKPOINT, "an older checkpoint or the commits")


def test_checkpoint_with_fewer_files_than_stated_is_replaced_by_the_newest_of_two_older_checkpoints(
    tmp_path: Path,
) -> None:
    log = cut_table(tmp_path / "t", "classic")
    write_checkpoint(log, 0, "classic", [*FIRST, *FILES[:4]])
    write_checkpoint(log, 1, "classic", [*FIRST, *FILES[:5]])
    (log / commit_file(1)).unlink()
    put_hint(log, numOfAddFiles=6)
    assert num_files(log) == 7
    instead = {fault.kind: fault.read_instead for fault in condition(tmp_path / "t").faults}
    assert instead[ProblemKind.DOUBTED_CHECKPOINT] == "an older checkpoint or the commits"


def test_checkpoint_with_fewer_files_than_the_checksum_states_is_replaced_by_the_commits(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic")
    put_checksum(log, 6)
    assert num_files(log) == 7
    (fault,) = condition(tmp_path / "t").faults
    assert fault.reason == "expected 6 files, as the .crc file states, found 3"


def test_checkpoint_that_both_hints_contradict_is_an_error_if_nothing_replaces_it(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", keeps_commits=False)
    put_hint(log, numOfAddFiles=6)
    put_checksum(log, 6)
    with pytest.raises(CorruptLogError, match="expected 6 files, as _last_checkpoint states, found 3"):
        num_files(log)
    found = condition(tmp_path / "t")
    assert ([*found.loadable], found.mark) == ([], "error")


@pytest.mark.parametrize("of_checksum", [None, 5], ids=["no checksum", "checksum with another number"])
def test_checkpoint_without_replacement_is_used_if_the_hints_do_not_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of_checksum: int | None
) -> None:
    log = cut_table(tmp_path / "t", "classic", keeps_commits=False)
    put_hint(log, numOfAddFiles=6)
    if of_checksum is not None:
        put_checksum(log, of_checksum)
    with caplog.at_level(logging.WARNING):
        assert num_files(log) == 4
    assert "Nothing can replace a checkpoint that a hint contradicts" in caplog.text
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (ProblemKind.DOUBTED_CHECKPOINT, "warning", [2, 3])
    assert "expected 6 files, as _last_checkpoint states, found 3" in fault.text


def test_newest_of_two_doubted_checkpoints_without_replacement_is_used(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic")
    write_checkpoint(log, 1, "classic", [*FIRST, *FILES[:5]])
    for version in range(2):
        (log / commit_file(version)).unlink()
    put_hint(log, numOfAddFiles=6)
    put_checksum(log, 9, version=1)
    assert num_files(log) == 4


def test_wrong_hint_does_not_stop_a_load_if_an_older_commit_is_damaged(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", files=6)
    put_hint(log, numOfAddFiles=5)
    (log / commit_file(1)).write_bytes(b"?")
    assert num_files(log) == 7
    found = condition(tmp_path / "t")
    assert ([*found.loadable], [fault.kind for fault in found.faults]) == (
        [0, 2, 3],
        [ProblemKind.CORRUPT_COMMIT, ProblemKind.DOUBTED_CHECKPOINT],
    )
    assert found.faults[1].read_instead is None


def test_hint_counts_for_versions_that_start_from_the_checkpoint_of_the_current_one(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic")
    put_hint(log, numOfAddFiles=6)
    table = log_without_spark(TableLog.for_path(log.parent))
    assert table.snapshot.log_segment.checkpoint_provider.version == 2
    assert table.get_snapshot_at(2).computed_state.num_of_files == 6


def test_hint_is_read_once_for_a_load(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", files=6)
    put_hint(log, numOfAddFiles=6)
    store = CountingLogStore(FsspecLogStore())
    table = log_without_spark(TableLog(store, to_url(log)))
    assert table.snapshot.computed_state.num_of_files == 7
    assert [path.rpartition("/")[2] for path in store.opens].count(LAST_CHECKPOINT) == 1


def test_hint_that_the_checksum_refutes_is_wrong_itself(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", files=6, keeps_commits=False)
    put_hint(log, numOfAddFiles=5)
    put_checksum(log, 6)
    assert num_files(log) == 7
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind is ProblemKind.BROKEN_HINT
    assert "it states 5 files in the checkpoint of version 2, not 6" in fault.text


@pytest.mark.parametrize("hint", [{"numOfAddFiles": 6}, {"numOfAddFiles": 5, "parts": 2}, {"version": 1}])
def test_checkpoint_with_right_or_no_statements_has_no_fault(tmp_path: Path, hint: dict[str, int]) -> None:
    log = cut_table(tmp_path / "t", "v2-json-sidecars", files=6)
    put_hint(log, **hint)
    kinds = {fault.kind for fault in condition(tmp_path / "t").faults}
    assert num_files(log) == 7
    assert kinds <= ({ProblemKind.BROKEN_HINT} if "parts" in hint else set())


@pytest.mark.parametrize("files", [5, 6])
def test_files_are_counted_in_the_pages_only_if_the_footers_contradict_the_hint(
    files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, counted = cut_table(tmp_path / "t", "classic", files=6), []

    def read_pages(*given: Any) -> Any:
        counted.append(given)
        return read_every_page(*given)

    monkeypatch.setattr(checkpoint_doubts, "read_every_page", read_pages)
    # The null counts of some writers are wrong.
    monkeypatch.setattr(checkpoint_doubts, "null_count", lambda *given: (null_count(*given) or 0) + 6 - files)
    put_hint(log, numOfAddFiles=6)
    assert num_files(log) == 7
    assert len(counted) == (0 if files == 6 else 1)


def test_stored_version_with_as_many_files_as_the_checkpoint_refutes_the_hint(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", files=6)
    put_checksum(log, 5)
    found = condition(tmp_path / "t")
    assert [fault.kind for fault in found.faults] == [ProblemKind.DOUBTED_CHECKPOINT]
    assert found.with_stored_files(6).faults == ()
    (fault,) = found.with_stored_files(5).faults
    assert "contradicts the stored version" in fault.text


def test_stored_version_does_not_doubt_a_log_without_a_counted_checkpoint(tmp_path: Path) -> None:
    write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a")]})
    found = condition(tmp_path / "t")
    assert found.counted is None
    assert found.with_stored_files(5) == found


def cut_lines(log: Path, kept: int) -> tuple[Path, int]:
    """Cut a checkpoint in JSON at the end of a line. Return its file, and its size before."""
    (file,) = log.glob("*.checkpoint.*.json")
    before = file.read_bytes()
    file.write_bytes(b"".join(before.splitlines(keepends=True)[:kept]))
    return file, len(before)


@pytest.mark.parametrize("keeps_commits", [True, False], ids=["with commits", "without"])
def test_json_checkpoint_cut_at_the_end_of_a_line_is_smaller_than_stated(tmp_path: Path, keeps_commits: bool) -> None:
    log = cut_table(tmp_path / "t", "v2-json-sidecars", files=6, keeps_commits=keeps_commits)
    file, size = cut_lines(log, 3)
    put_hint(log, numOfAddFiles=6, v2Checkpoint={"path": file.name, "sizeInBytes": size})
    if keeps_commits:
        assert num_files(log) == 7
    else:
        with pytest.raises(CorruptLogError, match=f"expected {size} bytes, as _last_checkpoint states"):
            num_files(log)


def test_json_checkpoint_that_lost_only_other_actions_is_smaller_than_stated(tmp_path: Path) -> None:
    transaction: Action = {"txn": {"appId": "a", "version": 1}}
    log = write_log(tmp_path / "t", {0: [*FIRST, transaction], 1: [add("b")]})
    write_checkpoint(log, 1, "v2-json", [*FIRST, add("b"), transaction])
    file, size = cut_lines(log, 4)
    put_hint(log, version=1, numOfAddFiles=1, v2Checkpoint={"path": file.name, "sizeInBytes": size})
    assert log_without_spark(TableLog.for_path(tmp_path / "t")).snapshot.transactions == {"a": 1}


@pytest.mark.parametrize("stated", ["6", "7"])
def test_tag_of_the_checkpoint_states_the_actions_of_its_sidecars(tmp_path: Path, stated: str) -> None:
    log = cut_table(tmp_path / "t", "v2-json-sidecars", files=6, keeps_commits=False)
    (file,) = log.glob("*.checkpoint.*.json")
    marker: Action = {"checkpointMetadata": {"version": 2, "tags": {"sidecarNumActions": stated}}}
    file.write_bytes(content([marker]) + b"\n".join(file.read_bytes().splitlines()[1:]))
    if stated == "6":
        assert num_files(log) == 7
    else:
        with pytest.raises(CorruptLogError, match=r"expected 7 actions in its sidecars, .* found 6"):
            num_files(log)


@pytest.mark.parametrize("style", ["v2-json-sidecars", "v2-parquet-sidecars"])
def test_sidecar_that_was_replaced_has_another_size_than_stated(tmp_path: Path, style: CheckpointStyle) -> None:
    log = cut_table(tmp_path / "t", style, files=6)
    sidecar = sorted((log / SIDECAR_FOLDER).iterdir())[0]
    pq.write_table(pq.read_table(sidecar).slice(1), sidecar)

    assert num_files(log) == 7
    (fault,) = condition(tmp_path / "t").faults
    assert (fault.kind, fault.mark) == (ProblemKind.CORRUPT_CHECKPOINT, "warning")
    assert re.fullmatch(r"expected a sidecar of \d+ bytes, as the checkpoint states, found \d+", fault.reason)

    for version in range(3):
        (log / commit_file(version)).unlink()
    with pytest.raises(CorruptLogError, match="expected a sidecar of"):
        num_files(log)
