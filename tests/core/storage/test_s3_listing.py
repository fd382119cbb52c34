"""Requests to S3, answered by a bucket in memory with pages of two entries. `test_flaky_s3.py` uses a server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core.errors import StorageError
from deltasnap_core.storage import fsspec_log_store
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.s3.s3_listing import list_s3_from, lists_from_name, s3_status

TIME = datetime(2026, 1, 2, tzinfo=UTC)
PAGE = 2


class Bucket:
    """What the code uses of s3fs, for the bucket `lake`, whose objects have the lengths of their keys as sizes."""

    req_kw = {"RequestPayer": "requester"}  # noqa: RUF012 - never changed

    def __init__(self, *keys: str) -> None:
        self.keys = sorted(keys)
        self.requests: list[dict[str, Any]] = []

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call_s3(self, method: str, **options: Any) -> dict[str, Any]:
        self.requests.append(options)
        assert options["Bucket"] == "lake"
        if method == "head_object":
            assert options["RequestPayer"] == "requester"
            if options["Key"] not in self.keys:
                raise FileNotFoundError(options["Key"])
            return {"ContentLength": len(options["Key"]), "LastModified": TIME}
        assert (method, options["Delimiter"]) == ("list_objects_v2", "/")
        after = options.get("ContinuationToken", options.get("StartAfter", ""))
        entries = [entry for entry in self._entries(options["Prefix"]) if entry > after]
        size = options.get("MaxKeys", PAGE)
        page = {
            "Contents": [self._object(entry) for entry in entries[:size] if not entry.endswith("/")],
            "CommonPrefixes": [{"Prefix": entry} for entry in entries[:size] if entry.endswith("/")],
            "NextContinuationToken": entries[size - 1] if len(entries) > size else None,
        }
        return {name: value for name, value in page.items() if value}

    def _entries(self, prefix: str) -> Sequence[str]:
        below = [key.removeprefix(prefix) for key in self.keys if key.startswith(prefix)]
        return sorted({prefix + name[: name.find("/") + 1 or None] for name in below})

    def _object(self, key: str) -> dict[str, Any]:
        return {"Key": key, "Size": len(key), "LastModified": TIME}


def names(bucket: Bucket, folder: str, first: str) -> list[str]:
    url = f"s3://{folder}"
    return [file.path.removeprefix(f"{url}/") for file in list_s3_from(bucket, folder, url, first)]


def test_listing_begins_with_a_name_and_follows_the_pages() -> None:
    keys = ["00", "01", "02", "10", "11", "12", "13"]
    bucket = Bucket("t/other", "t/log/_sidecars/x", *(f"t/log/{key}" for key in keys))
    assert names(bucket, "lake/t/log", "11") == ["11", "12", "13"]
    assert len(bucket.requests) == 3  # pages of 10 and 11, 12 and 13, and the folder
    assert names(bucket, "lake/t/log", "") == keys
    assert names(bucket, "lake/t/log", "105") == ["11", "12", "13"]


def test_first_page_is_fetched_at_the_call_and_others_on_demand() -> None:
    bucket = Bucket(*(f"t/0{number}" for number in range(5)))
    files = list_s3_from(bucket, "lake/t", "s3://lake/t", "")
    assert len(bucket.requests) == 1
    assert next(files) == FileStatus(path="s3://lake/t/00", size=4, modification_time=1_767_312_000_000)
    assert len(bucket.requests) == 1


def test_objects_at_the_root_of_a_bucket_are_listed() -> None:
    assert names(Bucket("a", "b", "c/d"), "lake", "") == ["a", "b"]


def test_object_named_as_the_folder_is_no_file() -> None:
    assert names(Bucket("t/", "t/a"), "lake/t", "") == ["a"]


@pytest.mark.parametrize("keys", [("t/a", "t/b"), ("t/folder/a",)], ids=["files", "a folder"])
def test_folder_without_later_files_is_empty(keys: Sequence[str]) -> None:
    assert names(Bucket(*keys), "lake/t", "x") == []


@pytest.mark.parametrize("first", ["", "a"])
def test_prefix_without_objects_is_a_missing_folder(first: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such folder: s3://lake/t$"):
        list_s3_from(Bucket("tt/a"), "lake/t", "s3://lake/t", first)


def test_failed_request_names_the_folder() -> None:
    bucket = Bucket()
    bucket.call_s3 = lambda *_, **__: (_ for _ in ()).throw(PermissionError("denied"))  # type: ignore[method-assign]
    with pytest.raises(StorageError) as error:
        list_s3_from(bucket, "lake/t", "s3://lake/t", "")
    assert error.value.path == "s3://lake/t"


def test_status_of_an_object_takes_one_request() -> None:
    bucket = Bucket("t/abc")
    expected = FileStatus(path="s3://lake/t/abc", size=5, modification_time=1_767_312_000_000)
    assert s3_status(bucket, "lake/t/abc", "s3://lake/t/abc") == expected
    assert len(bucket.requests) == 1


def test_folders_of_directory_buckets_and_other_storages_are_not_listed_from_a_name() -> None:
    assert lists_from_name(Bucket(), "lake/t")
    assert not lists_from_name(Bucket(), "lake--eun1-az1--x-s3/t")
    assert not lists_from_name(SimpleNamespace(), "lake/t")


def test_log_store_lists_s3_from_a_name_and_needs_one_request_for_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket("t/0.json", "t/1.json", "t/2.json")
    monkeypatch.setattr(fsspec_log_store, "filesystem_of", lambda url, _: (bucket, url.removeprefix("s3://")))
    store = FsspecLogStore()
    assert store.lists_from_name("s3://lake/t")
    assert [file.path for file in store.list_from("s3://lake/t/1.json")] == ["s3://lake/t/1.json", "s3://lake/t/2.json"]
    assert len(bucket.requests) == 1
    found = [store.status(f"s3://lake/t/{name}.json") for name in (1, 3)]
    assert [file and file.size for file in found] == [8, None]
    assert len(bucket.requests) == 3
