"""A storage that throttles, hangs and lists by pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltasnap_core.errors import StorageError
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.versions.stored_table import StoredTable
from tests.flaky_s3 import FlakyS3

KEYS = 1205

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("SlowDown", "503 Slow Down"),
        ("ServiceUnavailable", "503 Service Unavailable"),
        ("InternalError", "500 Internal Server Error"),
        ("TooManyRequests", "429 Too Many Requests"),  # of other servers than Amazon's
        ("BadGateway", "502 Bad Gateway"),  # of a proxy
    ],
)
def test_throttled_storage_is_retried(
    flaky_s3: tuple[FlakyS3, dict[str, Any]], tmp_path: Path, code: str, status: str
) -> None:
    flaky, options = flaky_s3
    root = f"s3://lake/{tmp_path.name}/{code}"
    files, log_store = WritableFiles(root, options), FsspecLogStore(options)
    flaky.reset(refusals=2, code=code, status=status)
    files.write(f"{root}/a.json", b"1")
    assert files.read(f"{root}/a.json") == b"1"
    assert files.status(f"{root}/a.json") is not None
    files.move(f"{root}/a.json", f"{root}/b.json")
    assert files.names(root) == ["b.json"]
    assert [file.name for file in files.walk(root)] == ["b.json"]
    with log_store.open(f"{root}/b.json") as stream:
        assert stream.read() == b"1"
    files.delete([f"{root}/b.json"])
    flaky.reset()
    assert files.names(root) == []


def test_hanging_storage_is_retried(flaky_s3: tuple[FlakyS3, dict[str, Any]], tmp_path: Path) -> None:
    flaky, options = flaky_s3
    root = f"s3://lake/{tmp_path.name}/hangs"
    files = WritableFiles(root, options)
    flaky.reset(refusals=1, hang_seconds=3)
    files.write(f"{root}/a.json", b"1")
    assert files.read(f"{root}/a.json") == b"1"
    assert flaky.refused >= 2


def test_permanent_failure_of_a_storage_is_reported(flaky_s3: tuple[FlakyS3, dict[str, Any]], tmp_path: Path) -> None:
    flaky, options = flaky_s3
    root = f"s3://lake/{tmp_path.name}"
    flaky.reset(refusals=10**6, code="ServiceUnavailable")
    with pytest.raises(StorageError, match="The storage failed at s3://lake/"):
        FsspecLogStore(options).read_bytes(f"{root}/a.json")
    assert sum(flaky.requested.values()) <= 25


def test_missing_file_is_requested_once(flaky_s3: tuple[FlakyS3, dict[str, Any]], tmp_path: Path) -> None:
    flaky, options = flaky_s3
    flaky.reset()
    with pytest.raises(FileNotFoundError):
        FsspecLogStore(options).read_bytes(f"s3://lake/{tmp_path.name}/gone.json")
    assert flaky.count("GET", "/gone.json") == 1


def test_log_and_store_with_more_keys_than_a_page_are_listed_completely(
    flaky_s3: tuple[FlakyS3, dict[str, Any]], tmp_path: Path
) -> None:
    flaky, options = flaky_s3
    options = {**options, "config_kwargs": {"read_timeout": 60}}  # each request is counted: none may be repeated
    root = f"s3://lake/{tmp_path.name}/many"
    files = WritableFiles(root, options)
    log_path = f"{root}/_delta_log"
    files.write_many({join_url(log_path, commit_file(version)): b"{}\n" for version in range(KEYS)})
    stored = StoredTable(storage=files, root=root, name="events")
    names = [ManifestName(generation="000001-id", version=version) for version in range(KEYS)]
    files.write_many({stored.manifest_url(name): b"{}" for name in names})
    flaky.reset()
    assert list(list_log(FsspecLogStore(options), log_path).commits) == list(range(KEYS))
    assert flaky.count("GET", "_delta_log") == 2
    assert stored.stored_versions().current == tuple(names)
    assert sum(flaky.requested.values()) == 4
