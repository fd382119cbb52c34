"""Paths that are not files, cannot be read, or fail: no hangs, only our errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fsspec
import pytest

from deltasnap_core import ProblemKind, TableLog
from deltasnap_core.errors import CorruptLogError, DeltaSnapError, DeltaTableNotFoundError, StorageError
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.storage import retries
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import is_file
from deltasnap_core.storage.storage_errors import storage_errors, translated_stream
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from tests.builders import add, metadata, mtime_of, protocol, write_log

COUNTS = {"tableSizeBytes": 3, "numFiles": 3, "numMetadata": 1, "numProtocol": 1}


def log_of(folder: Path, last: int = 2) -> Path:
    return write_log(folder, {v: [add(f"{v}")] if v else [protocol(), metadata()] for v in range(last + 1)})


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


NO_FILES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "FIFO": os.mkfifo,
    "link loop": loop,
    "dangling link": dangling,
}


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize("name", ["_last_checkpoint", f"{2:020d}.crc", f"{2:020d}.checkpoint.parquet"])
def test_folder_or_link_in_place_of_a_hint_or_checkpoint_does_not_fail_a_load(
    tmp_path: Path, name: str, make: Callable[[Path], object]
) -> None:
    make(log_of(tmp_path) / name)
    latest = TableLog.for_path(tmp_path).latest()
    assert (latest.version, latest.metadata.id, latest.checksum) == (2, "table-id", None)
    assert TableLog.for_path(tmp_path).status().latest == 2


@pytest.mark.parametrize(("make", "version"), [*((make, 2) for make in NO_FILES.values()), (Path.mkdir, 1)])
def test_commit_that_is_not_a_file_cannot_be_read(tmp_path: Path, make: Callable[[Path], object], version: int) -> None:
    log = log_of(tmp_path)
    (log / f"{version:020d}.json").unlink()
    make(log / f"{version:020d}.json")
    with pytest.raises(CorruptLogError, match="expected a commit, found no file"):
        _ = TableLog.for_path(tmp_path).latest().metadata
    condition = TableLog.for_path(tmp_path).condition()
    (fault,) = condition.faults
    assert (fault.kind, fault.mark, fault.where.file) == (
        ProblemKind.CORRUPT_COMMIT,
        "error",
        f"{to_url(tmp_path)}/_delta_log/{version:020d}.json",
    )
    assert condition.loadable.text() == ("0" if version == 1 else "0 to 1")
    assert TableLog.for_path(tmp_path).at(0).version == 0


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_poll_reports_a_new_commit_that_is_not_a_file_once(tmp_path: Path, make: Callable[[Path], object]) -> None:
    log, table = log_of(tmp_path), TableLog.for_path(tmp_path)
    cursor = table.cursor(table.status())
    make(log / f"{3:020d}.json")
    found = table.new_commits(cursor)
    assert found is not None
    assert found.versions == (3,)
    assert table.new_commits(table.cursor(found)) is None


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_commit_that_is_not_a_file_has_no_timestamp(tmp_path: Path, make: Callable[[Path], object]) -> None:
    log = log_of(tmp_path)
    (log / f"{2:020d}.crc").write_text(json.dumps({**protocol(), "metadata": metadata()["metaData"], **COUNTS}))
    (log / f"{2:020d}.json").unlink()
    make(log / f"{2:020d}.json")
    assert TableLog.for_path(tmp_path).latest().metadata.id == "table-id"
    with pytest.raises(CorruptLogError, match="expected a commit, found no file"):
        _ = TableLog.for_path(tmp_path).latest().timestamp


@pytest.mark.parametrize(("make", "version"), [*((make, 2) for make in NO_FILES.values()), (Path.mkdir, 1)])
def test_history_names_a_commit_that_is_no_file(tmp_path: Path, make: Callable[[Path], object], version: int) -> None:
    log = log_of(tmp_path)
    (log / f"{version:020d}.json").unlink()
    make(log / f"{version:020d}.json")
    history = TableLog.for_path(tmp_path).history
    with pytest.raises(CorruptLogError, match=f"{version:020d}.json: expected a commit, found no file"):
        history.get_history()
    assert [entry.version for entry in history.get_history(end=version - 1)] == [*reversed(range(version))]
    assert history.commit_timestamps() == {each: mtime_of(each) for each in range(3) if each != version}
    assert history.get_active_commit_at_time(mtime_of(3 - version)).version == 3 - version


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, dangling], ids=["file", "FIFO", "dangling link"])
def test_log_that_is_not_a_folder_is_not_a_table(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "_delta_log")
    table = TableLog.for_path(tmp_path)
    for ask in (table.latest, table.status, table.history.get_history):
        with pytest.raises(DeltaTableNotFoundError):
            ask()


def test_log_that_is_a_link_to_itself_names_it(tmp_path: Path) -> None:
    loop(tmp_path / "_delta_log")
    with pytest.raises(StorageError) as error:
        TableLog.for_path(tmp_path).status()
    assert error.value.path == f"{to_url(tmp_path)}/_delta_log"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "FIFO"])
def test_reading_something_other_than_a_file_fails_immediately(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x")
    store, url = FsspecLogStore(), to_url(tmp_path / "x")
    for read in (store.read_bytes, store.open, lambda path: store.read_many([path])):
        with pytest.raises(StorageError, match="not a regular file") as error:
            read(url)
        assert error.value.path == url
    assert not is_file(store, url)


def test_file_below_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(FileNotFoundError):
        FsspecLogStore().read_bytes(to_url(tmp_path / "x" / "y"))


@pytest.mark.parametrize("name", ["x\0y", "x" * 5000, "\ud800"], ids=["NUL", "long", "surrogate"])
def test_invalid_path_is_our_error(tmp_path: Path, name: str) -> None:
    store, url = FsspecLogStore(), f"{to_url(tmp_path)}/{name}"
    for ask in (store.read_bytes, store.open, store.status):
        with pytest.raises(StorageError):
            ask(url)


def refuse(*_: object, **__: object) -> Any:
    raise PermissionError(13, "Permission denied")


def test_commit_without_read_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path)
    table = TableLog.for_path(tmp_path)
    monkeypatch.setattr(os, "open", refuse)
    assert LogSegmentBuilder(table.store, table.log_path).read_hint() is None
    with pytest.raises(DeltaSnapError) as error:
        _ = table.latest().protocol
    assert f"{to_url(log)}/{0:020d}.json" in str(error.value)
    assert "Permission denied" in str(error.value)


def test_folder_without_list_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(tmp_path)
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match="_delta_log: Permission denied"):
        TableLog.for_path(tmp_path).status()


def test_name_that_is_not_unicode_is_ignored(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    Path(os.fsdecode(os.fsencode(log) + b"/00000000000000000009.\xff.json")).touch()
    assert TableLog.for_path(tmp_path).status().latest == 2


class TimeoutOfTheirsError(Exception):
    """Like the error of a cloud storage client."""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A remote folder whose client raises its own error."""
    root = f"memory://{tmp_path.name}"
    filesystem, path = fsspec.core.url_to_fs(root)
    filesystem.pipe_file(f"{path}/00.json", b"x")

    for name in ("ls", "info", "cat_file", "open", "pipe_file", "find", "rm", "rm_file"):
        monkeypatch.setattr(
            type(filesystem),
            name,
            Mock(side_effect=TimeoutOfTheirsError("GET https://host/x?X-Amz-Signature=abc timed out")),
        )
    return root


def test_failure_of_remote_storage_becomes_our_error_without_credentials(failing: str) -> None:
    store, files = FsspecLogStore(), WritableFiles(failing)
    calls: list[Callable[[], object]] = [
        lambda: store.list_from(f"{failing}/0"),
        lambda: store.status(f"{failing}/00.json"),
        lambda: store.read_bytes(f"{failing}/00.json"),
        lambda: store.read_many([f"{failing}/00.json"] * 2),
        lambda: store.open(f"{failing}/00.json"),
        lambda: files.write(f"{failing}/01.json", b""),
        lambda: files.walk(failing),
        lambda: files.delete([f"{failing}/00.json"]),
        lambda: files.delete_folder(failing),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="timed out") as error:
            call()
        assert error.value.path.startswith(failing)
        assert isinstance(error.value.__cause__, TimeoutOfTheirsError)
        assert "abc" not in str(error.value)


def test_stream_that_fails_during_a_read_raises_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory://{tmp_path.name}/00.json"
    filesystem, path = fsspec.core.url_to_fs(url)
    filesystem.pipe_file(path, b"x")

    class Stream:
        def read(self, _: int) -> bytes:
            raise TimeoutOfTheirsError

        def tell(self) -> int:
            return 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(type(filesystem), "open", lambda *_, **__: Stream())
    with FsspecLogStore().open(url) as file, pytest.raises(StorageError, match="TimeoutOfTheirsError"):
        file.read()


def test_unknown_storage_is_our_error() -> None:
    with pytest.raises(StorageError, match="nowhere"):
        TableLog.for_path("nowhere://lake/events").latest()


def test_stream_continues_where_a_failed_read_began(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(BytesIO):
        fails = True

        def read(self, size: int | None = -1, /) -> bytes:
            if self.fails:
                self.fails = False
                super().read(3)
                raise TimeoutError
            return super().read(size)

    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0)
    with translated_stream("s3://lake/a", Stream(b"0123456789")) as file:
        assert file.read(4) == b"0123"
        assert file.read() == b"456789"


def test_file_that_disappears_during_a_listing_is_left_out(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(b"1")
    listed = FsspecLogStore().list_from(f"{to_url(tmp_path)}/b")
    (tmp_path / "b").unlink()
    assert [file.name for file in listed] == ["c"]


def test_message_of_azure_is_its_first_line_with_its_code() -> None:
    error = Exception("The lease is held.\nRequestId:1\nContent: <?xml ...>")
    error.error_code = "LeaseHeld"  # type: ignore[attr-defined]
    with pytest.raises(StorageError) as raised, storage_errors("az://lake/x"):
        raise error
    assert raised.value.reason == "The lease is held (LeaseHeld)"
