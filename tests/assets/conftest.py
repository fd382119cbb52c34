"""Fixtures of the tests of the app: they create hundreds of Dagster instances."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import tests.fast_dagster  # noqa: F401
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.writable_files import WritableFiles


@pytest.fixture(autouse=True)
def instance_of_the_test() -> Iterator[None]:
    """Commands set DAGSTER_HOME for their process, which the next tests are not to use."""
    before = os.environ.get("DAGSTER_HOME")
    yield
    os.environ.pop("DAGSTER_HOME", None)
    if before is not None:
        os.environ["DAGSTER_HOME"] = before


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The folders listed and the files read, of every log and store of this process."""
    found: dict[str, list[str]] = {"listed": [], "read": []}
    list_from, read_bytes, names = FsspecLogStore.list_from, FsspecLogStore.read_bytes, WritableFiles.names

    def listed(self: FsspecLogStore, path: str) -> Iterator[FileStatus]:
        found["listed"].append(path.rpartition("/")[0])
        return list_from(self, path)

    def named(self: WritableFiles, folder: str) -> list[str]:
        found["listed"].append(folder)
        return names(self, folder)

    def read(self: FsspecLogStore, path: str) -> bytes:
        found["read"].append(path)
        return read_bytes(self, path)

    monkeypatch.setattr(FsspecLogStore, "list_from", listed)
    monkeypatch.setattr(WritableFiles, "names", named)
    monkeypatch.setattr(FsspecLogStore, "read_bytes", read)
    return found
