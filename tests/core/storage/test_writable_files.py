from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import Mock

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deltasnap_core.errors import StorageError
from deltasnap_core.storage import retries, writable_files
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from tests.core.storage.writable_files_builders import MountedFileSystem


class CachingFileSystem(MountedFileSystem):
    """A storage that returns its first listing of a folder until its cache is invalidated, as s3fs does."""

    protocol = "caching"
    listed: ClassVar[dict[tuple[str, bool], Any]] = {}

    def ls(self, path: str, detail: bool = False, **_: Any) -> Any:
        key = path.rstrip("/"), detail
        if key not in self.listed:
            self.listed[key] = super().ls(path, detail)
        return self.listed[key]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listed.clear()


def test_listing_has_what_other_processes_have_written(tmp_path: Path) -> None:
    fsspec.register_implementation("caching", CachingFileSystem, clobber=True)
    root = f"caching://{tmp_path}"
    files = WritableFiles(root)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"1")
        assert max(files.folders(root)) == name
        assert names(files, root)[-1] == f"{name}/x"


@pytest.fixture(params=["file", "memory", "mounted"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    fsspec.register_implementation("mounted", MountedFileSystem, clobber=True)
    place = {"file": to_url(tmp_path), "memory": f"memory://{tmp_path.name}", "mounted": f"mounted://{tmp_path}"}
    return f"{place[request.param]}/a store"


def test_folders_are_listed_by_name_without_files(root: str) -> None:
    files = WritableFiles(root)
    assert files.folders(root) == []
    files.write_many({f"{root}/{path}": b"1" for path in ("a/b/c.json", "d/e.json", "f.json")})
    assert sorted(files.folders(root)) == ["a", "d"]


def names(files: WritableFiles, folder: str) -> list[str]:
    return [status.path.removeprefix(folder + "/") for status in files.walk(folder)]


def test_file_is_written_read_listed_and_deleted(root: str) -> None:
    files = WritableFiles(root)
    files.write(f"{root}/a/b.json", b"1")
    files.write_many({f"{root}/a/c.json": b"22", f"{root}/d.json": b"333"})
    assert files.read(f"{root}/a/b.json") == b"1"
    assert files.read_many([f"{root}/d.json", f"{root}/a/c.json"]) == [b"333", b"22"]
    assert files.names(f"{root}/a") == ["b.json", "c.json"]
    assert names(files, root) == ["a/b.json", "a/c.json", "d.json"]
    assert [status.size for status in files.walk(root)] == [1, 2, 3]
    files.delete([f"{root}/a/b.json", f"{root}/a/gone.json"])
    assert names(files, root) == ["a/c.json", "d.json"]
    files.delete_folder(f"{root}/a")
    files.delete_folder(f"{root}/gone")
    assert names(files, root) == ["d.json"]


@pytest.mark.parametrize("fails", ["write_bytes", "replace"])
def test_failed_write_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    files, write = WritableFiles(to_url(tmp_path)), Path.write_bytes
    files.write(f"{to_url(tmp_path)}/old.json", b"1")

    def full(path: Path, content: Any) -> None:
        if fails == "write_bytes":
            write(path, b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, fails, full)
    for name in ("new.json", "old.json"):
        with pytest.raises(StorageError, match="No space left on device"):
            files.write(f"{to_url(tmp_path)}/{name}", b"1234")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old.json": b"1"}


def test_failed_write_to_a_mounted_storage_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("mounted", MountedFileSystem, clobber=True)
    files = WritableFiles(f"mounted://{tmp_path}")
    files.write(f"mounted://{tmp_path}/old.json", b"1")

    monkeypatch.setattr(MountedFileSystem, "mv", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(StorageError, match="No space left on device"):
        files.write(f"mounted://{tmp_path}/new.json", b"1234")
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


def test_missing_folder_is_empty(root: str) -> None:
    files = WritableFiles(root)
    assert (files.names(f"{root}/no"), files.walk(f"{root}/no")) == ([], [])
    assert files.statuses([f"{root}/no"]) == [None]


def test_write_replaces_atomically(root: str) -> None:
    files = WritableFiles(root)
    files.write(f"{root}/a.json", b"old")
    files.write(f"{root}/a.json", b"new")
    assert files.read(f"{root}/a.json") == b"new"
    assert names(files, root) == ["a.json"]


def test_move_replaces_a_file(root: str) -> None:
    files = WritableFiles(root)
    files.write(f"{root}/a", b"1")
    files.write(f"{root}/b/c", b"2")
    files.move(f"{root}/a", f"{root}/b/c")
    assert names(files, root) == ["b/c"]
    assert files.read(f"{root}/b/c") == b"1"


def test_deleting_the_last_file_deletes_its_local_folder(tmp_path: Path) -> None:
    root = to_url(tmp_path)
    files = WritableFiles(root)
    files.write(f"{root}/a/x", b"1")
    files.delete([f"{root}/a/x"])
    assert not (tmp_path / "a").exists()


def test_file_moves_only_to_a_new_name(root: str) -> None:
    files = WritableFiles(root)
    files.write(f"{root}/one", b"1")
    files.write(f"{root}/two", b"2")
    assert files.move_new(f"{root}/one", f"{root}/below/target")
    assert not files.move_new(f"{root}/two", f"{root}/below/target")
    assert files.read(f"{root}/below/target") == b"1"
    assert names(files, root) == ["below/target", "two"]


def test_file_is_written_only_under_a_new_name(root: str) -> None:
    files = WritableFiles(root)
    assert files.write_new(f"{root}/below/target", b"1")
    assert not files.write_new(f"{root}/below/target", b"2")
    assert files.read(f"{root}/below/target") == b"1"
    assert names(files, root) == ["below/target"]


def test_file_created_after_the_check_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = to_url(tmp_path)
    files = WritableFiles(root)
    files.write_many({f"{root}/one": b"1", f"{root}/two": b"2"})
    monkeypatch.setattr(files, "status", lambda _: None)
    assert not files.move_new(f"{root}/two", f"{root}/one")
    assert (files.read(f"{root}/one"), files.read(f"{root}/two")) == (b"1", b"2")


def test_file_moves_without_link_support(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EPERM, "no links here")))
    root = to_url(tmp_path)
    files = WritableFiles(root)
    files.write_many({f"{root}/one": b"1", f"{root}/two": b"2"})
    assert files.move_new(f"{root}/one", f"{root}/three")
    assert not files.move_new(f"{root}/two", f"{root}/three")
    assert names(files, root) == ["three", "two"]


def test_move_that_fails_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.ENOSPC, "the disk is full")))
    root = to_url(tmp_path)
    files = WritableFiles(root)
    files.write(f"{root}/one", b"1")
    with pytest.raises(StorageError, match="the disk is full"):
        files.move_new(f"{root}/one", f"{root}/two")
    assert names(files, root) == ["one"]


def test_object_store_without_the_rejected_object_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "memory://test_object_store"
    files = WritableFiles(root)

    monkeypatch.setattr(MemoryFileSystem, "put_file", Mock(side_effect=PermissionError("denied")))
    with pytest.raises(StorageError, match="denied"):
        files.write_new(f"{root}/one", b"1")
    files.write(f"{root}/one", b"0")
    assert not files.write_new(f"{root}/one", b"1")
    assert files.read(f"{root}/one") == b"0"


class FailingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A storage whose first requests of a part fail. It returns errors as contents, as s3fs over fsspec 2026.4 does."""

    protocol = "failing"
    failures: ClassVar[list[Exception]] = []

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        if self.failures:
            raise self.failures.pop()
        return bytes(super().cat_file(path, start, end, **options))

    def cat_ranges(self, paths: list[str], starts: list[int], ends: list[int], **_: Any) -> list[bytes]:
        return list(super().cat_ranges(paths, starts, ends, on_error="return"))


def test_parts_of_a_remote_file_are_requested_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0)
    fsspec.register_implementation("failing", FailingFileSystem, clobber=True)
    files, path, parts = WritableFiles("failing://parts"), "failing://parts/file", [range(2, 5), range(8, 9)]
    files.write(path, b"0123456789")
    FailingFileSystem.failures[:] = [TimeoutError("slow"), TimeoutError("slow")]
    with files.open_parts(path, 10, parts) as stream:
        assert [(stream.seek(part.start), stream.read(len(part))) for part in parts] == [(2, b"234"), (8, b"8")]
    FailingFileSystem.failures[:] = [PermissionError("denied")]
    with pytest.raises(StorageError, match="denied"):
        files.open_parts(path, 10, parts)


def test_bucket_that_does_not_exist_is_no_empty_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(code: str) -> FileNotFoundError:
        error = FileNotFoundError("no such bucket")
        error.__cause__ = Exception()
        error.__cause__.response = {"Error": {"Code": code}}  # type: ignore[attr-defined]  # as botocore
        return error

    def ls(*_: object, **__: object) -> None:
        raise missing(codes.pop(0))

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    codes = ["NoSuchKey", "NoSuchBucket"]
    files = WritableFiles("memory://none")
    assert files.folders("memory://none") == []
    with pytest.raises(StorageError, match="the bucket does not exist"):
        files.folders("memory://none")


@pytest.mark.spark  # a server
def test_s3_rejects_a_name_created_after_the_check(s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    root = "s3://lake/move-new"
    files = WritableFiles(root, s3_options)
    files.write_many({f"{root}/one": b"1", f"{root}/two": b"2"})
    found = files.status
    answers = iter([None])
    monkeypatch.setattr(files, "status", lambda path: next(answers, found(path)))
    assert not files.move_new(f"{root}/two", f"{root}/one")
    assert (files.read(f"{root}/one"), files.read(f"{root}/two")) == (b"1", b"2")
    assert files.move_new(f"{root}/two", f"{root}/three")
    assert [files.write_new(f"{root}/four", content) for content in (b"4", b"5")] == [True, False]
    assert names(files, root) == ["four", "one", "three"]


@pytest.mark.spark  # a server
def test_missing_folder_of_a_bucket_is_empty_and_a_missing_bucket_is_an_error(s3_options: dict[str, Any]) -> None:
    files = WritableFiles("s3://lake/none", s3_options)
    assert (files.names("s3://lake/none"), files.folders("s3://lake/none")) == ([], [])
    for listed in (files.names, files.folders):
        with pytest.raises(StorageError, match="the bucket does not exist"):
            listed("s3://no-such-bucket/none")


def test_folder_that_a_prune_deletes_during_a_write_is_created_again(tmp_path: Path) -> None:
    folder, attempts = tmp_path / "a" / "b", list[bool]()

    def work() -> None:
        attempts.append(folder.exists())
        if len(attempts) == 1:
            shutil.rmtree(tmp_path / "a")
        (folder / "file").write_bytes(b"1")

    WritableFiles(to_url(tmp_path))._in_folder(to_url(folder), work)
    assert (attempts, (folder / "file").read_bytes()) == ([True, True], b"1")


@pytest.mark.parametrize(
    "scheme", ["s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory", ("gs", "gcs")], ids=str
)
def test_object_is_written_by_one_put(scheme: str | tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    put: dict[str, bytes] = {}
    bucket = SimpleNamespace(protocol=scheme, pipe_file=put.__setitem__)
    monkeypatch.setattr(writable_files, "filesystem_of", lambda url, _: (bucket, url))
    WritableFiles("lake://t").write("lake://t/a", b"1")
    assert put == {"lake://t/a": b"1"}
