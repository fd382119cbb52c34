"""Checkpoints that can be read, but that a hint, their own statements or a stored version contradicts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltasnap_core import CorruptLogError, ProblemKind, TableLog
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
@pytest.mark.parametrize("keeps_commits", [True, False], ids=["with commits", "without"])
def test_hint_that_states_another_number_of_files_is_a_warning_and_the_checkpoint_is_used(
    tmp_path: Path, style: CheckpointStyle, keeps_commits: bool
) -> None:
    log = cut_table(tmp_path / "t", style, files=5, keeps_commits=keeps_commits)
    put_hint(log, numOfAddFiles=6, **parts_of(style))
    put_checksum(log, 6)
    assert num_files(log) == 6
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, 3 in found.loadable) == (ProblemKind.BROKEN_HINT, "warning", True)
    assert fault.reason == "it states 6 files in the checkpoint of version 2, not 5"


def test_hint_is_compared_with_a_checkpoint_only_if_its_files_are_counted(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", files=6)
    put_hint(log, numOfAddFiles=5)
    assert [fault.kind for fault in condition(log.parent).faults] == [ProblemKind.BROKEN_HINT]
    assert condition(log.parent, read_pages=False).faults == ()


def test_hint_is_read_once_for_a_load(tmp_path: Path) -> None:
    log = cut_table(tmp_path / "t", "classic", files=6)
    put_hint(log, numOfAddFiles=6)
    store = CountingLogStore(FsspecLogStore())
    table = log_without_spark(TableLog(store, to_url(log)))
    assert table.snapshot.computed_state.num_of_files == 7
    assert [path.rpartition("/")[2] for path in store.opens].count(LAST_CHECKPOINT) == 1


@pytest.mark.parametrize("hint", [{"numOfAddFiles": 6}, {"numOfAddFiles": 5, "parts": 2}, {"version": 1}])
def test_checkpoint_with_right_or_no_statements_has_no_fault(tmp_path: Path, hint: dict[str, int]) -> None:
    log = cut_table(tmp_path / "t", "v2-json-sidecars", files=6)
    put_hint(log, **hint)
    kinds = {fault.kind for fault in condition(tmp_path / "t").faults}
    assert num_files(log) == 7
    assert kinds <= ({ProblemKind.BROKEN_HINT} if "parts" in hint else set())


@pytest.mark.parametrize(("stored", "kinds"), [(6, []), (5, [ProblemKind.WRONG_CHECKPOINT])])
def test_checkpoint_has_the_files_of_the_stored_version(tmp_path: Path, stored: int, kinds: list[ProblemKind]) -> None:
    cut_table(tmp_path / "t", "classic", files=6)
    found = condition(tmp_path / "t").with_stored_files(stored)
    assert [fault.kind for fault in found.faults] == kinds


def test_stored_version_is_not_compared_with_a_log_without_a_counted_checkpoint(tmp_path: Path) -> None:
    write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a")]})
    found = condition(tmp_path / "t")
    assert found.counted is None
    assert found.with_stored_files(5) == found


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
