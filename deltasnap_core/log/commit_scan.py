"""One action out of each of many commits, without parsing the rest of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.protocol.actions import CommitInfo
from deltasnap_core.storage.log_store import FileStatus, LogStore

# A larger commit is read line by line: commitInfo is mostly the first one, and the rest may be gigabytes.
_SMALL_BYTES = 1 << 20
_FILES_AT_ONCE = 256


def read_commit_infos(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[tuple[FileStatus, CommitInfo | None]]:
    """Each commit with its commitInfo (None: it has none), in the order given; as `read_actions`."""
    for commit, line, values in read_actions(store, commits, "commitInfo"):
        try:
            yield commit, None if values is None else CommitInfo.from_json(values)
        except ValueError as error:
            raise CorruptLogError(path=commit.path, line=line, reason=str(error)) from error


def read_actions(
    store: LogStore, commits: Iterable[FileStatus], name: str
) -> Iterator[tuple[FileStatus, int | None, Any]]:
    """Each commit, in the order given, with the first action `name` in it: line number and decoded value, or None.

    Files are read as they are asked for, some hundred at once; one deleted since it was listed is left out.
    Raises CorruptLogError, naming file and line, where the line of such an action is not JSON.
    """
    key = f'"{name}"'.encode()
    remaining = iter(commits)
    while chunk := list(islice(remaining, _FILES_AT_ONCE)):
        contents = _read_small(store, chunk)
        for commit in chunk:
            is_small = commit.path in contents
            lines = _lines_in(contents[commit.path], key) if is_small else _lines_of(store, commit, key)
            try:
                found = _first_action(lines, name, commit.path)
            except FileNotFoundError:
                continue
            yield (commit, *found)


def _read_small(store: LogStore, commits: Sequence[FileStatus]) -> dict[str, bytes | None]:
    """Contents by path, without the large commits; None: gone."""
    paths = [commit.path for commit in commits if commit.size <= _SMALL_BYTES]
    try:
        return dict(zip(paths, store.read_many(paths), strict=True))
    except FileNotFoundError:  # the log is being cleaned up: which of them is gone?
        return {path: _read_if_there(store, path) for path in paths}


def _read_if_there(store: LogStore, path: str) -> bytes | None:
    try:
        return store.read_bytes(path)
    except FileNotFoundError:
        return None


def _lines_in(content: bytes | None, key: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and text of each line that holds the key. Lines end at newlines only, not at what Unicode calls one."""
    if content is None:
        raise FileNotFoundError
    position = content.find(key)
    while position >= 0:
        start, end = content.rfind(b"\n", 0, position) + 1, content.find(b"\n", position)
        end = len(content) if end < 0 else end
        yield content.count(b"\n", 0, start) + 1, content[start:end]
        position = content.find(key, end)


def _lines_of(store: LogStore, commit: FileStatus, key: bytes) -> Iterator[tuple[int, bytes]]:
    with store.open(commit.path) as file:
        yield from ((number, line) for number, line in enumerate(file, start=1) if key in line)


def _first_action(lines: Iterator[tuple[int, bytes]], name: str, path: str) -> tuple[int | None, Any]:
    for number, line in lines:
        try:
            action = json.loads(line)
        except ValueError as error:
            raise CorruptLogError(path=path, line=number, reason=f"not JSON: {error}") from error
        # The name may also stand inside another action, as that of a column.
        if isinstance(action, dict) and action.get(name) is not None:
            return number, action[name]
    return None, None
