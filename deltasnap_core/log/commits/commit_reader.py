"""Reads commits, each once and many at a time. Lines are parsed while the next ones are read."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.errors import CorruptLogError, StorageError
from deltasnap_core.log.commits import action_lines, commit_batch
from deltasnap_core.log.commits.action_lines import (
    FILE_ACTIONS,
    LINES_SCHEMA,
    MEASURED_LINES,
    OTHER_ACTIONS,
    classify_lines,
    lines_with,
    missing_commit,
    split_lines,
)
from deltasnap_core.log.commits.commit_batch import (
    SAMPLE_FILES,
    ChangedFile,
    CommitBatch,
    ReadCommit,
    first_files,
    in_one_piece,
    versions_with_negative_numbers,
)
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.storage.log_store import FileStatus, LogStore, is_file

IN_MEMORY_BYTES = 128 << 20
"""The maximum size of the commits of a batch that are kept in memory. For the others, only measures are kept."""

MEASURED_BYTES = 512 << 20
"""The maximum size of the measures of these other commits: about three million file actions."""

PIECE_BYTES = 4 << 20
_PARSER_THREADS = 4

T = TypeVar("T")
R = TypeVar("R")


def read_commits(store: LogStore, commits: Sequence[FileStatus]) -> CommitBatch:
    """Return the commits, each read once.

    commits: ascending by version.
    Errors: CorruptLogError naming the file, and the line if there is one.
    Source: PROTOCOL.md, Delta Log Entries.
    """
    held, streamed = _divided(commits)
    whole, parts = _read(store, held, is_held=True), _read(store, streamed, is_held=False)
    unusual = [file for file in streamed if commit_version(file.path) in parts.unusual]
    if unusual:
        parts = parts.without({commit_version(file.path) for file in unusual})
        whole = whole.joined(_read(store, [_keepable(file, parts) for file in unusual], is_held=True))
    commits_read = [*whole.commits, *parts.commits]
    return CommitBatch(
        commits=tuple(sorted(commits_read, key=lambda commit: commit.version)),
        lines=_in_log_order(in_one_piece([*whole.lines, *parts.lines], LINES_SCHEMA)),
        large_measures=parts.measures,
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Lines that are parsed together: whole commits, or a part of one. Both maps are by version, ascending."""

    path_of: dict[int, str]
    contents: dict[int, bytes]
    first_line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classified:
    """The parsed lines of a piece.

    For commits that are not kept in memory, only measures and samples of the file actions are kept.
    unusual: by version, the first line that was rewritten; only for commits that are not kept in memory.
    """

    lines: pa.Table
    counts: dict[int, int]
    measures: pa.Table = field(default_factory=MEASURED_LINES.empty_table)
    samples: dict[int, tuple[ChangedFile, ...]] = field(default_factory=dict)
    unusual: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The result of reading some commits. measures: None: too many to hold."""

    commits: tuple[ReadCommit, ...]
    lines: tuple[pa.Table, ...]
    measures: pa.Table | None
    unusual: dict[int, int]

    def joined(self, others: _Parts) -> _Parts:
        return _Parts(
            commits=self.commits + others.commits,
            lines=self.lines + others.lines,
            measures=self.measures,
            unusual={},
        )

    def without(self, versions: set[int]) -> _Parts:
        def rest(table: pa.Table) -> pa.Table:
            return table.filter(pc.invert(pc.is_in(table["commit_version"], pa.array(versions, pa.int64()))))

        return _Parts(
            commits=tuple(commit for commit in self.commits if commit.version not in versions),
            lines=tuple(map(rest, self.lines)),
            measures=None if self.measures is None else rest(self.measures),
            unusual=self.unusual,
        )


def _divided(commits: Sequence[FileStatus]) -> tuple[list[FileStatus], list[FileStatus]]:
    """Return the commits to keep in memory, and the others."""
    held: list[FileStatus] = []
    streamed: list[FileStatus] = []
    size = 0
    for commit in commits:
        size += commit.size
        is_held = commit.size <= commit_batch.LARGE_COMMIT_BYTES and size <= IN_MEMORY_BYTES
        (held if is_held else streamed).append(commit)
    return held, streamed


def _in_log_order(lines: pa.Table) -> pa.Table:
    versions = lines["commit_version"].to_numpy()
    if (versions[1:] >= versions[:-1]).all():
        return lines
    return lines.sort_by([("commit_version", "ascending"), ("line_number", "ascending")])


def _keepable(file: FileStatus, parts: _Parts) -> FileStatus:
    """Return a commit that must be kept in memory, because Spark would misread its lines of an unusual form.

    Errors: CorruptLogError if it is too large for that.
    """
    if file.size <= IN_MEMORY_BYTES:
        return file
    reason = (
        f"in a commit of more than {IN_MEMORY_BYTES} bytes, expected the usual form: "
        "each key once, integers without a fraction or an exponent"
    )
    raise CorruptLogError(path=file.path, line=parts.unusual[commit_version(file.path)], reason=reason)


def _read(store: LogStore, files: Sequence[FileStatus], *, is_held: bool) -> _Parts:
    hashes = {commit_version(file.path): hashlib.sha256() for file in files}
    lines, measures, measured_bytes = [], [MEASURED_LINES.empty_table()], 0
    negative: set[int] = set()
    counts: dict[int, int] = dict.fromkeys(hashes, 0)
    samples: dict[int, tuple[ChangedFile, ...]] = {}
    unusual: dict[int, int] = {}

    def read() -> Iterator[_Piece]:
        for piece in _pieces(store, files):
            for version, content in piece.contents.items():
                hashes[version].update(content)
            yield piece

    for found in _in_order(_classify_held if is_held else _classify_streamed, read(), at_once=_at_once(files)):
        lines.append(found.lines)
        negative |= versions_with_negative_numbers(found.lines) | versions_with_negative_numbers(found.measures)
        measured_bytes += found.measures.nbytes
        if measured_bytes <= MEASURED_BYTES:
            measures.append(found.measures)
        else:
            measures.clear()
        for version, count in found.counts.items():
            counts[version] += count
        for version, sample in found.samples.items():
            samples[version] = (samples.get(version, ()) + sample)[:SAMPLE_FILES]
        unusual = found.unusual | unusual
    return _Parts(
        commits=tuple(
            ReadCommit(
                file=file,
                digest=hashes[version].hexdigest(),
                file_actions=counts[version],
                sample=samples.get(version, ()),
                is_large=not is_held,
                has_negative_numbers=version in negative,
            )
            for version, file in zip(hashes, files, strict=True)
        ),
        lines=tuple(lines),
        measures=pa.concat_tables(measures) if measures else None,
        unusual=unusual,
    )


def _at_once(files: Sequence[FileStatus]) -> int:
    return _PARSER_THREADS if sum(file.size for file in files) > PIECE_BYTES else 0


def _in_order(function: Callable[[T], R], items: Iterable[T], *, at_once: int) -> Iterator[R]:
    """Yield `function` of each item, in order. Threads work while the next item is read. at_once: 0: no threads."""
    if at_once == 0:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="deltasnap-lines") as pool:
        pending: deque[Future[R]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > at_once:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _pieces(store: LogStore, files: Sequence[FileStatus]) -> Iterator[_Piece]:
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


def _whole(store: LogStore, files: Sequence[FileStatus]) -> Iterator[_Piece]:
    if not files:
        return
    try:
        contents = store.read_many([file.path for file in files])
    except (FileNotFoundError, StorageError) as error:
        missing = next((file.path for file in files if not is_file(store, file.path)), None)
        if missing is None and isinstance(error, StorageError):
            raise
        raise missing_commit(missing or files[0].path) from error
    path_of = {commit_version(file.path): file.path for file in files}
    yield _Piece(path_of=path_of, contents=dict(zip(path_of, contents, strict=True)))


def _in_parts(store: LogStore, file: FileStatus) -> Iterator[_Piece]:
    version = commit_version(file.path)
    try:
        with store.open(file.path) as stream:
            for number, content in pieces(stream, file.path):
                yield _Piece(path_of={version: file.path}, contents={version: content}, first_line=number)
    except FileNotFoundError as error:
        raise missing_commit(file.path) from error


def _classify_held(piece: _Piece) -> _Classified:
    lines = classify_lines(piece.path_of, split_lines(piece.path_of, piece.contents, first_line=piece.first_line))
    return _Classified(
        lines=lines, counts=_counts(lines_with(lines.select(["commit_version", "action"]), *FILE_ACTIONS))
    )


def _classify_streamed(piece: _Piece) -> _Classified:
    unread = split_lines(piece.path_of, piece.contents, first_line=piece.first_line)
    lines = classify_lines(piece.path_of, unread)
    is_change = pc.is_in(lines["action"], pa.array(FILE_ACTIONS))
    measures = lines.select(MEASURED_LINES.names).filter(is_change)
    return _Classified(
        lines=lines_with(lines, *OTHER_ACTIONS),
        counts=_counts(measures),
        measures=measures,
        samples=first_files(lines, np.flatnonzero(is_change.to_numpy()), SAMPLE_FILES),
        unusual=_first_differences(unread, lines),
    )


def _counts(changed: pa.Table) -> dict[int, int]:
    return {row["values"]: row["counts"] for row in pc.value_counts(changed["commit_version"]).to_pylist()}


def _first_differences(unread: pa.Table, usual: pa.Table) -> dict[int, int]:
    rewritten = usual.filter(pc.not_equal(unread["line"], usual["line"]))
    pairs = zip(rewritten["commit_version"].to_pylist(), rewritten["line_number"].to_pylist(), strict=True)
    return dict(reversed(list(pairs)))
