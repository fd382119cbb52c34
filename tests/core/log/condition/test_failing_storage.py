"""A table that is not there, or whose storage fails: the request failed, nothing is damaged."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import pytest

from deltasnap_core import FileStatus, ProblemKind, TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.storage.storage_errors import translated_stream
from deltasnap_core.storage.urls import to_url
from deltasnap_core.support import FsspecLogStore
from tests.builders import LOG_PATH, MemoryLogStore, add, metadata, protocol, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint
from tests.core.log.condition.table_condition_builders import condition, make_log
from tests.without_spark import log_without_spark


class FailingStream(io.BytesIO):
    def read(self, *_: int | None) -> bytes:
        raise OSError(errno.EIO, "503 Slow Down")  # not temporary: `retries` is tested elsewhere


class FailingStore(FsspecLogStore):
    """Files of checkpoints can be opened a number of times. Then opening or reading them fails."""

    def __init__(self, sound: int, fails_to: str) -> None:
        super().__init__()
        self.sound, self.fails_to, self.failed = sound, fails_to, 0

    def open(self, path: str) -> BinaryIO:
        if ".checkpoint." in path or "_sidecars" in path:
            self.sound -= 1
            if self.sound < 0:
                self.failed += 1
                if self.fails_to == "open":
                    raise StorageError(path=path, reason="503 Slow Down")
                return translated_stream(path, FailingStream(super().open(path).read()))
        return super().open(path)


def log_with_checkpoint(tmp_path: Path, style: CheckpointStyle) -> None:
    first = [protocol(), metadata()]
    log = write_log(tmp_path, {v: [*(first if v == 0 else []), add(f"f{v}")] for v in range(4)})
    write_checkpoint(log, 2, style, [*first, *(add(f"f{v}") for v in range(3))])


def log_of(tmp_path: Path, store: FailingStore) -> TableLog:
    return TableLog(store, f"{to_url(tmp_path)}/_delta_log")


@pytest.mark.parametrize("fails_to", ["open", "read"])
@pytest.mark.parametrize("style", ["classic", "multipart", "v2-parquet-sidecars"])
def test_failed_checkpoint_request_is_a_storage_error(tmp_path: Path, style: CheckpointStyle, fails_to: str) -> None:
    log_with_checkpoint(tmp_path, style)
    for sound in range(20):
        store = FailingStore(sound, fails_to)
        log = log_of(tmp_path, store)
        try:
            _ = log_without_spark(log).snapshot.computed_state
        except StorageError as error:
            assert "503 Slow Down" in str(error)  # noqa: PT017  it need not fail
            assert store.failed
        else:
            break
    assert not store.failed
    assert sound > 2  # footers, then actions


@pytest.mark.parametrize("fails_to", ["open", "read"])
@pytest.mark.parametrize("style", ["classic", "multipart"])
def test_failed_request_is_reported_as_no_damage(tmp_path: Path, style: CheckpointStyle, fails_to: str) -> None:
    log_with_checkpoint(tmp_path, style)
    for sound in range(20):
        store = FailingStore(sound, fails_to)
        condition = log_of(tmp_path, store).condition()
        if not store.failed:
            break
        assert {fault.kind for fault in condition.faults} == {ProblemKind.STORAGE_FAILED}
        assert condition.mark == "error"
    assert condition.faults == ()
    assert sound > 2


@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)], ids=["folder", "FIFO", "loop"]
)
def test_sidecar_that_is_no_file_is_damage(tmp_path: Path, make: Callable[[Path], object]) -> None:
    log_with_checkpoint(tmp_path, "v2-parquet-sidecars")
    log = log_of(tmp_path, FailingStore(99, "open"))
    sidecar = sorted((tmp_path / "_delta_log" / "_sidecars").iterdir())[0]
    sidecar.unlink()
    make(sidecar)
    assert log_without_spark(log).snapshot.computed_state.num_of_files == 4
    assert {fault.kind for fault in log.condition().faults} == {ProblemKind.CORRUPT_CHECKPOINT}


@pytest.mark.spark  # a server
def test_folder_of_folders_on_s3_has_no_log(s3_options: dict[str, Any]) -> None:
    fsspec.filesystem("s3", **s3_options).pipe("lake/bronze/events/part-0.parquet", b"x")
    for path, found in (("s3://lake/bronze", "the folder has no _delta_log"), ("s3://lake/gone", "no such folder")):
        (fault,) = TableLog.for_path(path, s3_options).condition().faults
        assert (fault.kind, found in fault.text) == (ProblemKind.NO_TABLE, True)


def _drop(table: Path) -> Path:
    shutil.rmtree(table)
    return table


def _drop_log(table: Path) -> Path:
    shutil.rmtree(table / "_delta_log")
    return table


def _empty_log(table: Path) -> Path:
    for file in (table / "_delta_log").iterdir():
        file.unlink()
    return table


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_drop, "no such folder"),
        (_drop_log, "the folder has no _delta_log"),
        (_empty_log, "neither a commit nor a checkpoint"),
        (lambda table: table / "_delta_log", "names a log folder"),
        (lambda table: table / "_delta_log" / commit_file(0), "names a file"),
    ],
    ids=["dropped", "no log", "empty log", "log folder", "file"],
)
def test_path_without_a_table_has_a_reason(tmp_path: Path, broken: Callable[[Path], Path], reason: str) -> None:
    make_log(tmp_path / "t", 1)
    found = condition(broken(tmp_path / "t"))
    (fault,) = found.faults
    assert (fault.kind, found.mark, found.latest) == (ProblemKind.NO_TABLE, "error", None)
    assert reason in fault.text
    assert fault.advice


@pytest.mark.parametrize(
    ("cause", "reason", "kind"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied", ProblemKind.ACCESS_DENIED),
        (OSError(), "An error occurred (403) when calling ListObjectsV2: Forbidden", ProblemKind.ACCESS_DENIED),
        (OSError(), "Unable to locate credentials", ProblemKind.ACCESS_DENIED),
        (OSError(), "Server failed to authenticate the request (AuthorizationFailure)", ProblemKind.ACCESS_DENIED),
        (OSError(), "Connection reset by peer", ProblemKind.STORAGE_FAILED),
    ],
    ids=["local", "403", "no credentials", "Azure", "network"],
)
def test_denied_access_is_not_a_failed_storage(cause: OSError, reason: str, kind: ProblemKind) -> None:
    class RefusingStore(MemoryLogStore):
        def list_from(self, path: str) -> Iterator[FileStatus]:
            raise StorageError(path="s3://key:secret@lake/t", reason=reason) from cause

    (fault,) = TableLog(RefusingStore(), LOG_PATH).condition().faults
    assert (fault.kind, fault.mark) == (kind, "error")
    assert reason in fault.text
    assert "secret@" not in fault.text
    assert fault.advice


def test_condition_of_an_unknown_scheme_does_not_advise_to_try_again() -> None:
    (fault,) = TableLog.for_path("foo://lake/t").condition().faults
    assert fault.kind == ProblemKind.STORAGE_FAILED
    assert (
        fault.advice
        == "Correct the scheme of the path or the storage options, or install the package of the filesystem."
    )
