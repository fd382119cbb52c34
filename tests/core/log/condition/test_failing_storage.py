"""A storage that fails while a checkpoint is read: the request failed, the checkpoint is not damaged."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
import pytest

from deltasnap_core import TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.storage.storage_errors import translated_stream
from deltasnap_core.storage.urls import to_url
from deltasnap_core.support import FsspecLogStore
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint
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


def make_log(tmp_path: Path, style: CheckpointStyle) -> None:
    first = [protocol(), metadata()]
    log = write_log(tmp_path, {v: [*(first if v == 0 else []), add(f"f{v}")] for v in range(4)})
    write_checkpoint(log, 2, style, [*first, *(add(f"f{v}") for v in range(3))])


def log_of(tmp_path: Path, store: FailingStore) -> TableLog:
    return TableLog(store, f"{to_url(tmp_path)}/_delta_log")


@pytest.mark.parametrize("fails_to", ["open", "read"])
@pytest.mark.parametrize("style", ["classic", "multipart", "v2-parquet-sidecars"])
def test_failed_request_for_a_checkpoint_is_a_storage_error(
    tmp_path: Path, style: CheckpointStyle, fails_to: str
) -> None:
    make_log(tmp_path, style)
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
def test_condition_reports_a_failed_request_and_no_damage(
    tmp_path: Path, style: CheckpointStyle, fails_to: str
) -> None:
    make_log(tmp_path, style)
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
    make_log(tmp_path, "v2-parquet-sidecars")
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
