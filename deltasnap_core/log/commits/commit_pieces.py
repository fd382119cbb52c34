"""Reads the content of commits in pieces of whole lines: many small commits together, a large commit in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from deltasnap_core.errors import StorageError
from deltasnap_core.log.commits import action_lines, commit_batch
from deltasnap_core.log.commits.action_lines import missing_commit
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.storage.log_store import FileStatus, LogStore, is_file

PIECE_BYTES = 4 << 20
"""The approximate size of a piece."""


Piece = tuple[int, dict[int, bytes]]
"""Lines that are parsed together, of whole commits or a part of one: the number of the first line of each commit, and
the contents by version, ascending.
"""


def pieces_of(store: LogStore, files: Sequence[FileStatus]) -> Iterator[Piece]:
    """Yield commits in pieces: many small commits together, a large commit in parts."""
    group: list[FileStatus] = []
    size = 0
    for file in files:
        is_large = file.size > max(PIECE_BYTES, commit_batch.LARGE_COMMIT_BYTES)
        if is_large or size >= PIECE_BYTES:
            yield from _whole(store, group)
            group, size = [], 0
        if is_large:
            yield from _in_parts(store, file)
        else:
            group.append(file)
            size += file.size
    yield from _whole(store, group)


def _whole(store: LogStore, files: Sequence[FileStatus]) -> Iterator[Piece]:
    if not files:
        return
    try:
        contents = store.read_many([file.path for file in files])
    except (FileNotFoundError, StorageError) as error:
        missing = next((file.path for file in files if not is_file(store, file.path)), None)
        if missing is None and isinstance(error, StorageError):
            raise
        raise missing_commit(missing or files[0].path) from error
    yield 1, {commit_version(file.path): content for file, content in zip(files, contents, strict=True)}


def _in_parts(store: LogStore, file: FileStatus) -> Iterator[Piece]:
    version = commit_version(file.path)
    try:
        with store.open(file.path) as stream:
            for number, content in pieces(stream, file.path):
                yield number, {version: content}
    except FileNotFoundError as error:
        raise missing_commit(file.path) from error


def pieces(stream: BinaryIO, path: str, *, first_bytes: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the content of a file in pieces of whole lines: the number of the first line, and the bytes.

    first_bytes: the approximate size of the first piece.
    Errors: CorruptLogError naming file and line of a line that is too long.
    """
    number, rest, wanted = 1, b"", first_bytes or PIECE_BYTES
    while read := stream.read(wanted):
        wanted = PIECE_BYTES
        end = read.rfind(b"\n") + 1
        if end:
            piece = b"".join((rest, memoryview(read)[:end]))
            yield number, piece
            number += piece.count(b"\n")
            rest = read[end:]
        else:
            rest += read
        if len(rest) > action_lines.MAX_LINE_BYTES:
            raise action_lines.too_long_error(path, number)
    if rest:
        yield number, rest
