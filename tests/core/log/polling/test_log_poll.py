"""The position of a poll in a log, and whether the log continues from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from deltasnap_core.errors import StorageError
from deltasnap_core.log.polling.log_poll import LogCursor, continues_from, cursor_at
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, add, commits, content, mtime_of

CONTENT, OTHER = content([add("a")]), content([add("b")])
LARGE = (16 << 20) + 1
CURSOR = LogCursor(
    table_id="g",
    version=3,
    size=len(CONTENT),
    modification_time=mtime_of(3),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


def store_with(data: bytes, *, mtime: int = mtime_of(3)) -> MemoryLogStore:
    store = MemoryLogStore()
    store.put(commit_file(3), data, mtime=mtime)
    return store


def continues(store: MemoryLogStore | CountingLogStore, cursor: LogCursor, latest: int = 3) -> bool:
    return continues_from(store, cursor, store.status(commits(3, 3)[0].path), latest)


def test_cursor_identifies_the_commit_of_its_version() -> None:
    assert cursor_at(store_with(CONTENT), LOG_PATH, "g", 3) == CURSOR


def test_cursor_without_a_commit_has_only_the_version() -> None:
    assert cursor_at(MemoryLogStore(), LOG_PATH, "g", 3) == LogCursor(table_id="g", version=3)


@pytest.mark.parametrize(("size", "is_read"), [(LARGE - 1, True), (LARGE, False)])
def test_large_commit_is_not_read_for_its_digest(size: int, is_read: bool) -> None:
    memory = store_with(CONTENT)
    (commit,) = memory.statuses.values()
    memory.statuses[commit.path] = replace(commit, size=size)
    store = CountingLogStore(memory)
    found = cursor_at(store, LOG_PATH, "g", 3)
    assert (found.size, found.modification_time, found.sha256 is not None) == (size, mtime_of(3), is_read)
    assert len(store.reads) == is_read


class Unreadable(MemoryLogStore):
    def read_bytes(self, path: str) -> bytes:
        raise StorageError(path=path, reason="it is a folder")


@pytest.mark.parametrize("size", [0, 5])
def test_only_an_empty_entry_may_be_unreadable(size: int) -> None:
    store = Unreadable([replace(commits(3, 3)[0], size=size)])
    if size:
        with pytest.raises(StorageError, match="it is a folder"):
            cursor_at(store, LOG_PATH, "g", 3)
    else:
        assert cursor_at(store, LOG_PATH, "g", 3).sha256 is None


def test_log_with_an_unchanged_commit_continues_without_a_read() -> None:
    store = CountingLogStore(store_with(CONTENT))
    assert continues(store, CURSOR)
    assert continues(store, CURSOR, latest=9)
    assert not continues(store, CURSOR, latest=2)
    assert store.reads == []


@pytest.mark.parametrize(
    ("data", "cursor", "expected"),
    [
        pytest.param(CONTENT, CURSOR, True, id="copied"),
        pytest.param(OTHER, CURSOR, False, id="another commit of the same size"),
        pytest.param(OTHER, replace(CURSOR, sha256=None), True, id="same size, unknown digest"),
        pytest.param(CONTENT + OTHER, CURSOR, False, id="another size"),
        pytest.param(CONTENT + OTHER, replace(CURSOR, sha256=None), False, id="another size, unknown digest"),
        pytest.param(CONTENT[:-9], CURSOR, True, id="damaged"),
        pytest.param(OTHER, LogCursor(table_id="g", version=3), True, id="unknown commit"),
    ],
)
def test_content_of_a_commit_with_another_time_decides(data: bytes, cursor: LogCursor, expected: bool) -> None:
    assert continues(store_with(data, mtime=mtime_of(9)), cursor) is expected


def test_log_that_was_cleaned_up_continues() -> None:
    assert continues(MemoryLogStore(), CURSOR)


@pytest.mark.parametrize(
    "values", [{"version": True}, {"version": -1}, {"version": 1.0}, {"generation": None}, {"unknown": 1}], ids=str
)
def test_text_of_another_form_is_no_cursor(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected a log cursor"):
        LogCursor.from_text(json.dumps({"generation": "g", "version": 3, **values}))
