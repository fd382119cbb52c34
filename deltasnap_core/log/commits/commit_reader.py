"""Reads commits, each once and many at a time. Lines are parsed while the next ones are read."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits import commit_batch, commit_pieces
from deltasnap_core.log.commits.action_lines import (
    FILE_ACTIONS,
    LINES_SCHEMA,
    MEASURED_LINES,
    OTHER_ACTIONS,
    classify_lines,
    has_marks,
    lines_with,
    split_lines,
    without_marks,
)
from deltasnap_core.log.commits.commit_batch import (
    SAMPLE_FILES,
    ChangedFile,
    CommitBatch,
    ParsedCommit,
    first_files,
    in_one_piece,
    versions_with_data_changes,
    versions_with_negative_numbers,
)
from deltasnap_core.log.commits.commit_pieces import Piece, pieces_of
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.log_store import FileStatus, LogStore

IN_MEMORY_BYTES = 128 << 20
"""The maximum size of the commits of a batch that are kept in memory. For the others, only measures are kept."""

MEASURED_BYTES = 512 << 20
"""The maximum size of the measures of these other commits: about three million file actions."""

COMMITS_AT_ONCE = 64
"""How many commits a reader parses at once if it may stop early, or if each is to be read again alone."""

_PARSER_THREADS = 4
_log = logger_of(__name__)

T = TypeVar("T")
R = TypeVar("R")


def read_commits(store: LogStore, commits: Sequence[FileStatus]) -> CommitBatch:
    """Return the commits, each read once. A large one with lines that Spark would misread is read again, to hold it.

    It logs one warning if lines end in the `x` of old Databricks runtimes (see `action_lines`).
    commits: ascending by version.
    Errors: CorruptLogError naming the file, and the line if there is one.
    Source: PROTOCOL.md, Delta Log Entries.
    """
    held, streamed = _divided(commits)
    small, large = _read(store, held, is_held=True), _read(store, streamed, is_held=False)
    unusual = [file for file in streamed if commit_version(file.path) in large.unusual]
    _check_holdable(unusual, large.unusual)
    large.leave_out({commit_version(file.path) for file in unusual})
    results = (small, large, _read(store, unusual, is_held=True))
    if any(found.has_marks for found in results):
        _log.warning(
            "Commits in %s have lines that end in an x after the object, as old Databricks runtimes wrote them: "
            "it is ignored. Other readers may refuse these commits.",
            redacted(commits[0].path.rpartition("/")[0]),
        )
    return CommitBatch(
        commits=tuple(sorted((each for found in results for each in found.commits), key=lambda commit: commit.version)),
        lines=_in_log_order(in_one_piece([lines for found in results for lines in found.lines], LINES_SCHEMA)),
        large_measures=large.measures,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classified:
    """The parsed lines of a piece.

    For commits that are not kept in memory, only measures and samples of the file actions are kept.
    has_marks: as `action_lines.has_marks`.
    unusual: by version, the first line that was rewritten; only for commits that are not kept in memory.
    data_changes: the versions with a file action that changes data.
    """

    lines: pa.Table
    counts: dict[int, int]
    has_marks: bool
    measures: pa.Table = field(default_factory=MEASURED_LINES.empty_table)
    samples: dict[int, tuple[ChangedFile, ...]] = field(default_factory=dict)
    unusual: dict[int, int] = field(default_factory=dict)
    data_changes: frozenset[int] = frozenset()


def _without(rows: pa.Table, versions: Set[int]) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["commit_version"], pa.array(versions, pa.int64()))))


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


def _check_holdable(files: Sequence[FileStatus], unusual: Mapping[int, int]) -> None:
    """Raise CorruptLogError for a commit that is too large to keep in memory, as Spark would misread unusual lines.

    unusual: by version, its first line of an unusual form.
    """
    for file in files:
        if file.size > IN_MEMORY_BYTES:
            reason = (
                f"in a commit of more than {IN_MEMORY_BYTES} bytes, expected the usual form: "
                "each key once, integers without a fraction or an exponent"
            )
            raise CorruptLogError(path=file.path, line=unusual[commit_version(file.path)], reason=reason)


def _read(store: LogStore, files: Sequence[FileStatus], *, is_held: bool) -> _Reading:
    """Read commits. is_held: whether to keep their lines in memory, otherwise only measures of file actions."""
    reading = _Reading(files, is_large=not is_held)
    pieces = map(reading.hashed, pieces_of(store, files))
    path_of = {commit_version(file.path): file.path for file in files}
    threads = _PARSER_THREADS if sum(file.size for file in files) > commit_pieces.PIECE_BYTES else 0
    for found in _in_order(partial(_classify, path_of, is_held), pieces, at_once=threads):
        reading.add(found)
    return reading


class _Reading:
    """Collects the contents of the pieces of some commits. has_marks, unusual: as in _Classified."""

    def __init__(self, files: Sequence[FileStatus], *, is_large: bool) -> None:
        """is_large: of each commit."""
        self.lines: list[pa.Table] = []
        self.has_marks = False
        self.unusual: dict[int, int] = {}
        self._is_large = is_large
        self._files = {commit_version(file.path): file for file in files}
        self._hashes = {version: hashlib.sha256() for version in self._files}
        self._counts = dict.fromkeys(self._files, 0)
        self._samples: dict[int, tuple[ChangedFile, ...]] = {}
        self._measures = [MEASURED_LINES.empty_table()]
        self._measured_bytes = 0
        self._negative: set[int] = set()
        self._data_changes: set[int] = set()

    def hashed(self, piece: Piece) -> Piece:
        """Add the content of a piece to the digests of its commits. Return the piece."""
        for version, content in piece[1].items():
            self._hashes[version].update(content)
        return piece

    def add(self, found: _Classified) -> None:
        """Add the lines of a piece, in the order of the log."""
        self.lines.append(found.lines)
        self.has_marks |= found.has_marks
        self._negative |= versions_with_negative_numbers(found.lines) | versions_with_negative_numbers(found.measures)
        self._data_changes |= found.data_changes
        self._measured_bytes += found.measures.nbytes
        if self._measured_bytes <= MEASURED_BYTES:
            self._measures.append(found.measures)
        else:
            self._measures.clear()
        for version, count in found.counts.items():
            self._counts[version] += count
        for version, sample in found.samples.items():
            self._samples[version] = (self._samples.get(version, ()) + sample)[:SAMPLE_FILES]
        self.unusual = found.unusual | self.unusual

    def leave_out(self, versions: Set[int]) -> None:
        """Leave out the commits of some versions."""
        if versions:
            self._files = {version: file for version, file in self._files.items() if version not in versions}
            self.lines = [_without(lines, versions) for lines in self.lines]
            self._measures = [_without(measures, versions) for measures in self._measures]

    @property
    def commits(self) -> list[ParsedCommit]:
        """The commits, ascending."""
        return [
            ParsedCommit(
                file=file,
                digest=self._hashes[version].hexdigest(),
                file_actions=self._counts[version],
                sample=self._samples.get(version, ()),
                is_large=self._is_large,
                has_negative_numbers=version in self._negative,
                has_data_change=version in self._data_changes,
            )
            for version, file in self._files.items()
        ]

    @property
    def measures(self) -> pa.Table | None:
        """The measures of file actions; None: too many to hold."""
        return pa.concat_tables(self._measures) if self._measures else None


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


def _classify(path_of: Mapping[int, str], is_held: bool, piece: Piece) -> _Classified:
    first_line, contents = piece
    unread = split_lines(path_of, contents, first_line=first_line)
    lines = classify_lines(path_of, unread)
    is_change = pc.is_in(lines["action"], pa.array(FILE_ACTIONS))
    counts = pc.value_counts(lines["commit_version"].filter(is_change)).to_pylist()
    found = _Classified(
        lines=lines,
        counts={each["values"]: each["counts"] for each in counts},
        has_marks=has_marks(unread),
        data_changes=versions_with_data_changes(lines),
    )
    if is_held:
        return found
    return replace(
        found,
        lines=lines_with(lines, *OTHER_ACTIONS),
        measures=lines.select(MEASURED_LINES.names).filter(is_change),
        samples=first_files(lines, np.flatnonzero(is_change.to_numpy()), SAMPLE_FILES),
        unusual=_first_differences(without_marks(unread), lines),  # Spark ignores the mark
    )


def _first_differences(unread: pa.Table, usual: pa.Table) -> dict[int, int]:
    rewritten = usual.filter(pc.not_equal(unread["line"], usual["line"]))
    pairs = zip(rewritten["commit_version"].to_pylist(), rewritten["line_number"].to_pylist(), strict=True)
    return dict(reversed(list(pairs)))


_PIECE_BYTES = 1 << 20


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def digest_of_file(store: LogStore, path: str) -> str:
    """Return the SHA-256 of a file, in hex, without loading the whole file. Errors: FileNotFoundError."""
    digest = hashlib.sha256()
    with store.open(path) as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
