"""Reads the first action of one kind from each of many commits, and stops there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa

from deltasnap_core.errors import StorageError
from deltasnap_core.log.commits.action_lines import (
    decode_line,
    decode_utf8,
    known_action,
    lines_with,
    missing_commit,
    read_lines,
)
from deltasnap_core.log.commits.commit_batch import commit_info
from deltasnap_core.log.commits.commit_pieces import pieces
from deltasnap_core.protocol.actions import CommitInfo
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.rules.texts.json_lines import BLANK
from deltasnap_core.storage.log_store import FileStatus, LogStore, is_file

# A larger commit is read in pieces: commitInfo is usually the first action, and the rest may be gigabytes.
_SMALL_BYTES = 1 << 20
_FILES_AT_ONCE = 256
_HEAD_BYTES = 64 << 10
_HEAD_LINES = 8
_WHITE_SPACE = BLANK.encode()


def read_commit_infos(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[tuple[FileStatus, CommitInfo | None]]:
    """Yield each commit with its commitInfo (None: it has none), in the order given. See `read_first_actions`."""
    for commit, line, values in read_first_actions(store, commits, "commitInfo"):
        yield commit, None if line is None else commit_info(commit.path, line, values)


def read_first_actions(
    store: LogStore, commits: Iterable[FileStatus], name: str
) -> Iterator[tuple[FileStatus, int | None, Any]]:
    """Yield each commit, in the order given, with its first action `name`: line number and decoded value, or None.

    Files are read on demand, some hundreds at a time. A file that was deleted after the listing is skipped.
    Errors: CorruptLogError, naming file and line, if a line up to that action is broken, or if it is a link or folder.
    """
    remaining = iter(commits)
    while chunk := list(islice(remaining, _FILES_AT_ONCE)):
        contents = _read_small(store, chunk)
        for commit in chunk:
            try:
                with _opened(store, commit, contents) as stream:
                    yield (commit, *_first_action(commit, stream, name))
            except FileNotFoundError:
                if not commit.size:  # listed as a link, folder or pipe: this is damage, unlike a cleanup
                    raise missing_commit(commit.path) from None


def _opened(store: LogStore, commit: FileStatus, contents: dict[str, bytes | None]) -> BinaryIO:
    if commit.path not in contents:
        return store.open(commit.path)
    content = contents[commit.path]
    if content is None:
        raise FileNotFoundError(commit.path)
    return BytesIO(content)


def _read_small(store: LogStore, commits: Sequence[FileStatus]) -> dict[str, bytes | None]:
    """Return contents by path, without the large commits; None: the file was deleted."""
    paths = [commit.path for commit in commits if commit.size <= _SMALL_BYTES]
    try:
        return dict(zip(paths, store.read_many(paths), strict=True))
    except (FileNotFoundError, StorageError):  # the log is being cleaned up, or has no file: find out which one
        return {path: _read_if_there(store, path) for path in paths}


def _read_if_there(store: LogStore, path: str) -> bytes | None:
    try:
        return store.read_bytes(path)
    except FileNotFoundError:
        return None
    except StorageError:
        if is_file(store, path):
            raise
        return None


def _first_action(commit: FileStatus, stream: BinaryIO, name: str) -> tuple[int | None, Any]:
    # The action is usually in the first lines. Parsing them one by one is cheap, and the other lines need no check.
    head = stream.read(_HEAD_BYTES)
    lines = head.split(b"\n")
    is_whole_file = len(head) < _HEAD_BYTES
    whole = lines if is_whole_file else lines[:-1]
    for number, line in enumerate(whole[:_HEAD_LINES], start=1):
        if line.strip(_WHITE_SPACE):
            actions = known_action(commit.path, number, decode_utf8(commit.path, number, line))
            if name in actions:
                return number, actions[name]
    if is_whole_file and not any(line.strip(_WHITE_SPACE) for line in lines[_HEAD_LINES:]):
        return None, None
    stream.seek(0)
    for table in _tables(commit, stream):
        for first in lines_with(table, name).slice(0, 1).to_pylist():
            number = first["line_number"]
            return number, decode_line(commit.path, number, first["line"])[name]
    return None, None


def _tables(commit: FileStatus, stream: BinaryIO) -> Iterator[pa.Table]:
    """Yield the lines of a commit on demand. The first table is small."""
    version = commit_version(commit.path)
    for number, piece in pieces(stream, commit.path, first_bytes=_HEAD_BYTES):
        yield read_lines(commit.path, version, piece, first_line=number)
