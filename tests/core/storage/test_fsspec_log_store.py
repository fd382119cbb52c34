"""The contract of every storage: local files, memory and S3."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import fsspec
import pytest

from deltasnap_core.storage.file_info import modification_time_ms
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore, filesystem_of, options_of
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.request_limits import without_s3_retries
from deltasnap_core.storage.urls import join_url, to_url
from tests.core.storage.writable_files_builders import MountedFileSystem


@dataclass(frozen=True)
class Storage:
    """A storage to test: the URL of an empty folder in it, and its options."""

    root: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> FsspecLogStore:
        return FsspecLogStore(self.options)

    def write(self, name: str, data: bytes = b"x") -> str:
        url = join_url(self.root, name)
        filesystem, path = fsspec.core.url_to_fs(url, **self.options)
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        filesystem.pipe_file(path, data)
        return url

    def names_from(self, name: str) -> list[str]:
        return [file.name for file in self.store.list_from(join_url(self.root, name))]


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.spark)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return Storage(to_url(tmp_path / "a log #1 50%25"))
    if request.param == "memory":
        return Storage(f"memory://{tmp_path.name}/a log #1 50%25")
    return Storage(f"s3://lake/{tmp_path.name}/a log 50%25", request.getfixturevalue("s3_options"))


def test_list_from_returns_files_from_the_name_in_order(storage: Storage) -> None:
    for name in ["02.json", "00.json", "01.json", "01.crc", "_last", ".hidden", "_sidecars/00.parquet"]:
        storage.write(name)
    assert storage.names_from("") == [".hidden", "00.json", "01.crc", "01.json", "02.json", "_last"]
    assert storage.names_from("01.") == ["01.crc", "01.json", "02.json", "_last"]
    assert storage.names_from("01.json") == ["01.json", "02.json", "_last"]
    assert storage.names_from("01.jsonx") == ["02.json", "_last"]
    assert storage.names_from("zz") == []


def test_only_s3_lists_from_a_name(storage: Storage) -> None:
    storage.write("00.json")
    assert storage.store.lists_from_name(storage.root) == storage.root.startswith("s3:")


def test_list_from_returns_the_status_of_each_file(storage: Storage) -> None:
    url = storage.write("00.json", b"12345")
    (listed,) = storage.store.list_from(join_url(storage.root, "0"))
    assert (listed.path, listed.size) == (url, 5)
    assert abs(listed.modification_time / 1000 - datetime.now(UTC).timestamp()) < 60
    assert storage.store.status(url) == listed


def test_list_from_returns_files_written_since(storage: Storage) -> None:
    storage.write("00.json")
    assert storage.names_from("0") == ["00.json"]
    assert storage.store.status(join_url(storage.root, "01.json")) is None
    storage.write("01.json")
    assert storage.names_from("0") == ["00.json", "01.json"]
    assert storage.store.status(join_url(storage.root, "01.json")) is not None


def test_list_from_a_missing_folder_raises_immediately(storage: Storage) -> None:
    storage.write("file")
    for missing in ["absent/0", "file/0"]:
        with pytest.raises(FileNotFoundError):
            storage.store.list_from(join_url(storage.root, missing))


def test_status_of_a_path_without_a_file_is_none(storage: Storage) -> None:
    storage.write("folder/00.json")
    assert storage.store.status(join_url(storage.root, "absent")) is None
    assert storage.store.status(join_url(storage.root, "folder")) is None
    assert storage.store.status(join_url(storage.root, "folder/00.json/below")) is None


def test_read_returns_whole_files_in_order(storage: Storage) -> None:
    urls = [storage.write(f"{n:02d}.json", bytes([n]) * n) for n in range(20)]
    assert storage.store.read_bytes(urls[7]) == bytes([7]) * 7
    assert storage.store.read_many(urls[::-1]) == [bytes([n]) * n for n in reversed(range(20))]
    assert storage.store.read_many([]) == []


def test_read_of_a_missing_file_is_an_error(storage: Storage) -> None:
    present, absent = storage.write("00.json"), join_url(storage.root, "01.json")
    for read in (storage.store.read_bytes, storage.store.open, lambda url: storage.store.read_many([present, url])):
        with pytest.raises(FileNotFoundError):
            read(absent)


def test_open_returns_a_seekable_file(storage: Storage) -> None:
    with storage.store.open(storage.write("00.json", b"0123456789")) as file:
        file.seek(-3, os.SEEK_END)
        assert file.read() == b"789"
        file.seek(0)
        assert file.read(2) == b"01"


class RememberingFileSystem(MountedFileSystem):
    """A storage that remembers the status of a file until its cache is invalidated, as `adlfs` does."""

    protocol = "remembering"
    remembered: ClassVar[dict[str, Any]] = {}

    def info(self, path: str, **options: Any) -> Any:
        if path not in self.remembered:
            self.remembered[path] = super().info(path, **options)
        return self.remembered[path]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return io.BytesIO(Path(path).read_bytes()[: self.info(path)["size"]])

    def invalidate_cache(self, path: str | None = None) -> None:
        self.remembered.clear()


def test_replaced_file_is_seen_in_a_storage_that_remembers_sizes(tmp_path: Path) -> None:
    fsspec.register_implementation("remembering", RememberingFileSystem, clobber=True)
    store, url = FsspecLogStore(), f"remembering://{tmp_path}/_last_checkpoint"
    for data in (b"short", b"much longer"):
        (tmp_path / "_last_checkpoint").write_bytes(data)
        status = store.status(url)
        assert status is not None
        assert status.size == len(data)
    (tmp_path / "_last_checkpoint").write_bytes(b"the longest of all")
    with store.open(url) as file:
        assert file.read() == b"the longest of all"


@pytest.mark.spark  # a server
def test_s3_listing_starts_at_the_name_and_is_lazy(s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage("s3://lake/paged", s3_options)
    for version in range(11):
        storage.write(f"{version:020d}.json")
    filesystem, _ = filesystem_of(storage.root, s3_options)
    pages: list[dict[str, Any]] = []
    call_s3 = filesystem.call_s3

    def counted(method: str, **arguments: Any) -> Any:
        pages.append(arguments)
        return call_s3(method, **{"MaxKeys": 10, **arguments})

    monkeypatch.setattr(filesystem, "call_s3", counted)
    listing = storage.store.list_from(join_url(storage.root, f"{0:020d}."))
    assert next(listing).name == f"{0:020d}.json"
    assert len(pages) == 1
    assert len(list(listing)) == 10
    assert len(pages) == 2
    pages.clear()
    assert len(storage.names_from(f"{8:020d}.")) == 3
    assert len(pages) == 1


@pytest.mark.spark
def test_s3_existence_of_a_file_costs_one_request(s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    storage = Storage("s3://lake/asked", s3_options)
    there = storage.write("00.json", b"12")
    filesystem, _ = filesystem_of(storage.root, s3_options)
    requested: list[str] = []
    call, call_later = filesystem.call_s3, type(filesystem)._call_s3

    def counted(method: str, **arguments: Any) -> Any:
        requested.append(method)
        return call(method, **arguments)

    async def counted_later(self: Any, method: str, *args: Any, **arguments: Any) -> Any:
        requested.append(method)
        return await call_later(self, method, *args, **arguments)

    monkeypatch.setattr(filesystem, "call_s3", counted)
    monkeypatch.setattr(type(filesystem), "_call_s3", counted_later)
    found = storage.store.status(there)
    assert found is not None
    assert found.size == 2
    assert storage.store.status(there.replace("00.json", "01.json")) is None
    assert requested == ["head_object"] * 2


NO_RETRIES = {"retries": {"max_attempts": 0}}


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("s3://lake/s3://", {"key": "k"}, {"key": "k", "config_kwargs": {**NO_RETRIES, "read_timeout": 10}}),
        (
            "s3a://lake/t",
            {"config_kwargs": {"read_timeout": 60, "region": "x"}},
            {"config_kwargs": {**NO_RETRIES, "read_timeout": 60, "region": "x"}},
        ),
        ("gs://lake/s3://", {"token": "t"}, {"token": "t"}),
        ("file:///lake", {"token": "t"}, {}),
    ],
)
def test_only_s3_gets_limits_and_local_files_nothing(
    url: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert options_of(url, options) == expected


def test_filesystem_of_s3_makes_one_request() -> None:
    class Once:
        storage_options = MappingProxyType({"key": "k"})

        def __init__(self, key: str = "") -> None:
            self.key = key

    class Retrying(Once):
        retries = 5

    found = without_s3_retries(Retrying())
    assert (found.retries, found.key, Retrying.retries) == (1, "k", 5)
    assert [type(without_s3_retries(kind())) for kind in (Once, type(found))] == [Once, type(found)]


def test_local_listing_returns_broken_links_and_folders_with_the_name_of_a_commit_without_size(tmp_path: Path) -> None:
    (tmp_path / "00.json").write_bytes(b"1")
    (tmp_path / "01.json").symlink_to(tmp_path / "00.json")
    (tmp_path / "02.json").symlink_to(tmp_path / "gone")
    (tmp_path / "03.json").mkdir()
    (tmp_path / "04").mkdir()
    files = list(FsspecLogStore().list_from(to_url(tmp_path) + "/0"))
    assert [(file.name, file.size) for file in files] == [
        ("00.json", 1),
        ("01.json", 1),
        ("02.json", 0),
        ("03.json", 0),
    ]


def test_local_modification_time_is_in_whole_milliseconds(tmp_path: Path) -> None:
    file = tmp_path / "00.json"
    file.write_bytes(b"")
    os.utime(file, ns=(0, 1_700_000_000_123_999_999))
    assert FsspecLogStore().status(to_url(file)) == FileStatus(
        path=to_url(file), size=0, modification_time=1_700_000_000_123
    )


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"mtime": 1_700_000_000.5}, 1_700_000_000_500),
        ({"modificationTime": 1_700_000_000_500}, 1_700_000_000_500),
        ({"LastModified": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)}, 1_700_000_000_000),
        ({"LastModified": datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2)))}, 1_700_000_000_000),
        ({"last_modified": datetime(2023, 11, 14, 22, 13, 20)}, 1_700_000_000_000),
        ({"updated": "2023-11-14T22:13:20.250Z"}, 1_700_000_000_250),
        ({"LastModified": "Tue, 14 Nov 2023 22:13:20 GMT"}, 1_700_000_000_000),
        ({"created": 1.0, "mtime": 2.0}, 2000),
        ({"mtime": None, "created": 1.0}, 1000),
        ({}, 0),
    ],
)
def test_modification_time_under_any_key(info: dict[str, Any], expected: int) -> None:
    assert modification_time_ms(info) == expected
