"""Listings of folders and of S3, and file information in the form of each filesystem."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from deltasnap_core.errors import StorageError
from deltasnap_core.storage import fsspec_log_store
from deltasnap_core.storage.file_info import modification_time_ms, status_of, to_ms
from deltasnap_core.storage.folder_listing import folder_of_pattern, list_below, matching_paths, roots_of
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.s3.s3_listing import list_s3_from, lists_from_name, s3_status
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles


def test_folder_is_listed_by_path_including_link_targets(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    names = [f"{day}/{name}.parquet" for day in ("d2", "d1", "d10") for name in ("c", "a", "b")]
    for name in (*names, "z.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12")
    (tmp_path / "elsewhere.parquet").write_bytes(b"123")
    (folder / "link.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "behind.parquet").write_bytes(b"123")
    (folder / "d1" / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "alias").symlink_to(folder)
    found = list_below(to_url(tmp_path / "alias"))
    assert [file.path for file in found.files] == [
        f"{to_url(tmp_path / 'alias')}/{n}" for n in sorted([*names, "z.parquet"])
    ]
    assert {file.size for file in found.files} == {2}
    assert found.roots == (to_url(tmp_path / "alias"), to_url(folder))
    assert sorted(found.link_targets) == [to_url(tmp_path / "elsewhere.parquet"), to_url(tmp_path / "other")]
    assert list_below(to_url(tmp_path / "nothing")).files == ()


def test_folder_of_an_object_store_has_no_links() -> None:
    folder = "memory://test_folder_listing"
    WritableFiles(folder).write_many({f"{folder}/b": b"12", f"{folder}/a/c": b"3"})
    found = list_below(folder)
    assert [(file.path, file.size) for file in found.files] == [(f"{folder}/a/c", 1), (f"{folder}/b", 2)]
    assert (found.roots, found.link_targets) == ((folder,), ())
    assert roots_of(folder) == (folder,)


def test_matching_folders_are_listed_in_order(tmp_path: Path) -> None:
    for name in ("events_b", "events_a", "other"):
        (tmp_path / name).mkdir()
    assert matching_paths(f"{tmp_path}/events_*", {}) == [f"{tmp_path}/events_a", f"{tmp_path}/events_b"]
    assert matching_paths(f"{tmp_path}/events_[b]", {}) == [f"{tmp_path}/events_b"]
    assert matching_paths(f"{tmp_path}/none_*", {}) == []


def test_wildcard_before_the_last_part_matches_folders(tmp_path: Path) -> None:
    (tmp_path / "x" / "t").mkdir(parents=True)
    (tmp_path / "y" / "u").mkdir(parents=True)
    assert matching_paths(f"{tmp_path}/?/t", {}) == [f"{tmp_path}/x/t"]


def test_folder_that_does_not_exist_is_an_error_and_not_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        matching_paths(f"{tmp_path}/nope/*", {})


def test_paths_of_a_url_have_no_scheme_and_new_ones_are_seen() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/matching/a/f", b"")
    assert matching_paths("memory://matching/*", {}) == ["/matching/a"]
    memory.pipe_file("/matching/b/f", b"")
    assert matching_paths("memory://matching/*", {}) == ["/matching/a", "/matching/b"]


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [("/lake/t_*", "/lake"), ("/lake/?/t*", "/lake"), ("/lake/x/[ab]", "/lake/x"), ("*", ""), ("/*", ""), ("a/b", "a")],
)
def test_folder_of_a_pattern_ends_before_its_first_wildcard(pattern: str, folder: str) -> None:
    assert folder_of_pattern(pattern) == folder


MOMENT = 1_700_000_000_123


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(1_700_000_000.123, id="seconds"),
        pytest.param(MOMENT, id="milliseconds"),
        pytest.param(datetime.fromtimestamp(MOMENT / 1000, UTC), id="datetime"),
        pytest.param(datetime.fromtimestamp(MOMENT / 1000, UTC).replace(tzinfo=None), id="datetime without a zone"),
        pytest.param(datetime.fromtimestamp(MOMENT / 1000, timezone(timedelta(hours=9))), id="datetime elsewhere"),
        pytest.param("2023-11-14T22:13:20.123+00:00", id="ISO"),
        pytest.param("2023-11-14T22:13:20.123", id="ISO without a zone"),
    ],
)
def test_time_in_any_form_is_parsed_to_milliseconds_in_any_time_zone(value: object) -> None:
    assert to_ms(value) == MOMENT


def test_http_time_is_parsed_to_milliseconds() -> None:
    assert to_ms("Tue, 14 Nov 2023 22:13:20 GMT") == 1_700_000_000_000


def test_number_below_ten_to_the_eleven_is_in_seconds() -> None:
    assert to_ms(99_999_999_999) == 99_999_999_999_000
    assert to_ms(100_000_000_000) == 100_000_000_000


@pytest.mark.parametrize("key", ["mtime", "LastModified", "last_modified", "updated", "modified", "modificationTime"])
def test_modification_time_is_preferred_to_creation_time(key: str) -> None:
    assert modification_time_ms({"created": 1, key: MOMENT}) == MOMENT


@pytest.mark.parametrize(("info", "time"), [({"created": MOMENT}, MOMENT), ({"mtime": None}, 0), ({}, 0)])
def test_missing_modification_time_is_the_creation_time_or_zero(info: dict[str, Any], time: int) -> None:
    status = status_of("s3://lake/a", {"size": 7, **info})
    assert (status.path, status.size, status.modification_time) == ("s3://lake/a", 7, time)


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
