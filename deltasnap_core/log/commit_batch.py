"""A run of commits, each read once: its actions for the driver and for Spark, its provenance, a sample, its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log import action_lines
from deltasnap_core.log.action_lines import (
    FILE_ACTIONS,
    LINES_SCHEMA,
    OTHER_ACTIONS,
    action_at,
    judged,
    lines_with,
    split_lines,
    structs,
)
from deltasnap_core.protocol.actions import CommitInfo
from deltasnap_core.protocol.file_names import commit_version
from deltasnap_core.storage.log_store import FileStatus, LogStore

LARGE_COMMIT_BYTES = 16 << 20
"""A commit above this size is not held in memory: Spark reads it by its path."""

IN_MEMORY_BYTES = 128 << 20
"""The commits of one batch held in memory, at most; what is beyond is read by path too."""

PIECE_BYTES = 8 << 20
SAMPLE_FILES = 20
"""So many of the files that a commit adds or removes can be shown of any commit."""

_MOST_PIECES = 64
_SAMPLE_SCHEMA = pa.schema(
    [
        ("add", pa.struct([("path", pa.string()), ("size", pa.int64())])),
        ("remove", pa.struct([("path", pa.string()), ("size", pa.int64())])),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a commit added (`change` is "+") or removed ("-"). size: bytes; None: the commit does not say."""

    change: str
    path: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCommit:
    """What is known of a commit that was read, beside its lines.

    digest:       SHA-256 of its bytes, in hex.
    file_actions: how many files it adds and removes.
    sample:       the first of them, SAMPLE_FILES at most, of a commit that is not held in memory; else none.
    is_large:     whether its file actions are not held in memory.
    """

    file: FileStatus
    digest: str
    file_actions: int
    sample: tuple[ChangedFile, ...] = ()
    is_large: bool = False

    @property
    def version(self) -> int:
        """The version that the commit makes."""
        return commit_version(self.file.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatch:
    """Commits in ascending order of version.

    commits: every commit of the batch, ascending.
    lines:   LINES_SCHEMA; the lines with actions, in the order of the log, as `action_lines` reads them: those of the
             large commits without their file actions.
    """

    commits: tuple[ReadCommit, ...]
    lines: pa.Table

    def __add__(self, newer: CommitBatch) -> CommitBatch:
        """Return these commits followed by newer ones."""
        return CommitBatch(commits=self.commits + newer.commits, lines=_in_one_piece([self.lines, newer.lines]))

    def after(self, version: int) -> CommitBatch:
        """Return the commits above a version."""
        return CommitBatch(
            commits=tuple(commit for commit in self.commits if commit.version > version),
            lines=self.lines.filter(pc.greater(self.lines["commit_version"], version)),
        )

    def up_to(self, version: int) -> CommitBatch:
        """Return the commits up to a version."""
        return CommitBatch(
            commits=tuple(commit for commit in self.commits if commit.version <= version),
            lines=self.lines.filter(pc.less_equal(self.lines["commit_version"], version)),
        )

    @property
    def files(self) -> tuple[FileStatus, ...]:
        """The file of every commit, ascending."""
        return tuple(commit.file for commit in self.commits)

    @property
    def large(self) -> tuple[FileStatus, ...]:
        """The commits whose file actions are to be read by path, ascending: every line is as Spark reads it right."""
        return tuple(commit.file for commit in self.commits if commit.is_large)

    @property
    def digests(self) -> dict[int, str]:
        """SHA-256 of the bytes of each commit, in hex, by version."""
        return {commit.version: commit.digest for commit in self.commits}

    @property
    def num_file_actions(self) -> int:
        """How many file actions there are, those of the large commits too."""
        return sum(commit.file_actions for commit in self.commits)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all the lines, those of the large commits too."""
        return int(self.lines.nbytes) + sum(file.size for file in self.large)

    @property
    def is_large(self) -> bool:
        """Whether the work on these commits is worth more than one task."""
        return self.size_in_bytes > LARGE_COMMIT_BYTES

    def lines_with(self, *actions: str) -> pa.Table:
        """Return the lines that hold one of these actions (LINES_SCHEMA); file actions of the small commits only."""
        return lines_with(self.lines, *actions)

    def actions(self, *names: str) -> Iterator[tuple[ReadCommit, int, str, Any]]:
        """Yield commit, line number, name and decoded value of each of these actions, in the order of the log.

        Errors: CorruptLogError naming file and line.
        """
        commits = {commit.version: commit for commit in self.commits}
        for row in self.lines_with(*names).to_pylist():
            commit, number, name = commits[row["commit_version"]], row["line_number"], row["action"]
            yield commit, number, name, action_at(commit.file.path, number, row["line"])[name]

    def commit_infos(self) -> dict[int, CommitInfo | None]:
        """Return what each commit says of itself, the first time it does; None: nothing.

        Errors: CorruptLogError naming file and line.
        """
        found: dict[int, CommitInfo | None] = {}
        for commit, number, _, values in self.actions("commitInfo"):
            if commit.version not in found:
                found[commit.version] = commit_info(commit.file.path, number, values)
        return {commit.version: found.get(commit.version) for commit in self.commits}

    def sample(self, version: int, most: int = 5) -> tuple[ChangedFile, ...]:
        """Return the first files that a commit adds or removes, in its order: `most` of them, SAMPLE_FILES at most."""
        commit = next(commit for commit in self.commits if commit.version == version)
        if commit.is_large:
            return commit.sample[:most]
        lines = self.lines_with(*FILE_ACTIONS)
        return changed_files(lines.filter(pc.equal(lines["commit_version"], version)), min(most, SAMPLE_FILES))


EMPTY_BATCH = CommitBatch(commits=(), lines=LINES_SCHEMA.empty_table())


def changed_files(lines: pa.Table, most: int) -> tuple[ChangedFile, ...]:
    """Return the files of the first file actions among some lines (LINES_SCHEMA), `most` of them."""
    rows = structs(lines_with(lines, *FILE_ACTIONS).slice(0, most), _SAMPLE_SCHEMA).to_pylist()
    return tuple(
        ChangedFile(change=change, **row[name])
        for row in rows
        for name, change in (("add", "+"), ("remove", "-"))
        if row[name] is not None
    )


def commit_info(path: str, number: int, values: Any) -> CommitInfo:
    """Return the commitInfo of a line from its decoded value. Errors: CorruptLogError naming file and line."""
    try:
        return CommitInfo.from_json(values)
    except ValueError as error:
        raise CorruptLogError(path=path, line=number, reason=str(error)) from error


def read_commits(store: LogStore, commits: Sequence[FileStatus]) -> CommitBatch:
    """Read commits, given in ascending order, each once.

    Errors: CorruptLogError naming the file, and the line where there is one.
    Source: PROTOCOL.md, Delta Log Entries.
    """
    small: list[FileStatus] = []
    held = 0
    for commit in commits:
        held += commit.size
        if commit.size <= LARGE_COMMIT_BYTES and held <= IN_MEMORY_BYTES:
            small.append(commit)
    large = [commit for commit in commits if commit not in set(small)]
    batches = [_read_small(small, _read_all(store, small)), *(_read_large(store, commit) for commit in large)]
    order = sorted((commit for batch in batches for commit in batch.commits), key=lambda commit: commit.version)
    lines = _in_one_piece([batch.lines for batch in batches])
    if large:
        lines = lines.sort_by([("commit_version", "ascending"), ("line_number", "ascending")])
    return CommitBatch(commits=tuple(order), lines=lines)


def pieces(stream: BinaryIO, path: str, *, first_bytes: int = PIECE_BYTES) -> Iterator[tuple[int, bytes]]:
    """Yield the content of a file in pieces of whole lines: the number of the first line, and the bytes.

    first_bytes: how much of it the first piece has, about.
    Errors: CorruptLogError naming file and line where a line is too long.
    """
    number, rest, wanted = 1, b"", first_bytes
    while read := stream.read(wanted):
        wanted = PIECE_BYTES
        end = read.rfind(b"\n") + 1
        if end:
            piece = rest + read[:end]
            yield number, piece
            number += piece.count(b"\n")
            rest = read[end:]
        else:
            rest += read
        if len(rest) > action_lines.MOST_LINE_BYTES:
            raise action_lines.too_long(path, number)
    if rest:
        yield number, rest


def _read_all(store: LogStore, commits: Sequence[FileStatus]) -> list[bytes]:
    try:
        return store.read_many([commit.path for commit in commits])
    except FileNotFoundError as error:
        missing = next((commit.path for commit in commits if store.status(commit.path) is None), commits[0].path)
        raise CorruptLogError(path=missing, reason="expected a commit, found no file") from error


def _read_small(files: Sequence[FileStatus], contents: Sequence[bytes]) -> CommitBatch:
    """Judge the lines of all of them at once: a call for each would take longer than the lines of most."""
    path_of = {version: file.path for version, file in _by_version(files)}
    tables = [
        split_lines(file.path, version, content)
        for (version, file), content in zip(_by_version(files), contents, strict=True)
    ]
    lines = judged(path_of, _in_one_piece(tables))
    counted = pc.value_counts(lines_with(lines, *FILE_ACTIONS)["commit_version"]).to_pylist()
    counts = {row["values"]: row["counts"] for row in counted}
    return CommitBatch(
        commits=tuple(
            ReadCommit(file=file, digest=hashlib.sha256(content).hexdigest(), file_actions=counts.get(version, 0))
            for (version, file), content in zip(_by_version(files), contents, strict=True)
        ),
        lines=lines,
    )


def _read_large(store: LogStore, file: FileStatus) -> CommitBatch:
    """Read a commit piece by piece and keep all but its file actions.

    A commit with lines of an unusual form, which Spark would read otherwise, is held whole; one too large for that is
    refused.
    """
    try:
        with store.open(file.path) as stream:
            batch, unusual = _judge_pieces(file, stream)
        if unusual is None:
            return batch
        if file.size <= IN_MEMORY_BYTES:
            return _read_small([file], [store.read_bytes(file.path)])
        reason = (
            f"in a commit of more than {IN_MEMORY_BYTES} bytes, expected the usual form: "
            "each key once, integers without a fraction or an exponent"
        )
        raise CorruptLogError(path=file.path, line=unusual, reason=reason)
    except FileNotFoundError as error:
        raise CorruptLogError(path=file.path, reason="expected a commit, found no file") from error


def _judge_pieces(file: FileStatus, stream: BinaryIO) -> tuple[CommitBatch, int | None]:
    """Return what is kept of a large commit, and its first line of an unusual form (None: there is none)."""
    version, digest = commit_version(file.path), hashlib.sha256()
    kept: list[pa.Table] = []
    sample: tuple[ChangedFile, ...] = ()
    file_actions, unusual = 0, None
    for number, piece in pieces(stream, file.path):
        digest.update(piece)
        lines = split_lines(file.path, version, piece, first_line=number)
        usual = judged({version: file.path}, lines)
        if unusual is None:
            unusual = _first_difference(lines, usual)
        changed = lines_with(usual, *FILE_ACTIONS)
        file_actions += changed.num_rows
        if len(sample) < SAMPLE_FILES:
            sample += changed_files(changed, SAMPLE_FILES - len(sample))
        kept.append(lines_with(usual, *OTHER_ACTIONS))
    commit = ReadCommit(file=file, digest=digest.hexdigest(), file_actions=file_actions, sample=sample, is_large=True)
    return CommitBatch(commits=(commit,), lines=_in_one_piece(kept)), unusual


def _first_difference(lines: pa.Table, usual: pa.Table) -> int | None:
    index = pc.index(pc.not_equal(lines["line"], usual["line"]), True).as_py()
    return None if index < 0 else int(lines["line_number"][index].as_py())


def _by_version(files: Sequence[FileStatus]) -> list[tuple[int, FileStatus]]:
    return [(commit_version(file.path), file) for file in files]


def _in_one_piece(tables: Sequence[pa.Table]) -> pa.Table:
    joined = pa.concat_tables([LINES_SCHEMA.empty_table(), *tables])
    # Each piece is a batch of its own for Spark to take; joined only now and then, lest every update copy all.
    return joined.combine_chunks() if joined["line"].num_chunks > _MOST_PIECES else joined
