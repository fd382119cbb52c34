"""The lines of a run of commits, read once and checked, for the driver and for Spark alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commit_digest import digest_of, digest_of_file
from deltasnap_core.protocol.actions import AddFile, RemoveFile
from deltasnap_core.protocol.file_names import commit_version
from deltasnap_core.storage.log_store import FileStatus, LogStore

LARGE_COMMIT_BYTES = 16 << 20
"""A commit above this size is never held in memory: Spark reads it by its path."""

IN_MEMORY_BYTES = 128 << 20
"""The commits of one batch held in memory, at most; what is beyond is read by path too."""

LINES_SCHEMA = pa.schema(
    [
        pa.field("commit_version", pa.int64(), nullable=False),
        pa.field("line_number", pa.int32(), nullable=False),
        pa.field("line", pa.string(), nullable=False),
    ]
)

_DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
# What a file action must look like for the replay to read it. Maps are left out: Arrow's reader takes them for structs.
_CHECKED = pa.schema(
    [
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("baseRowId", pa.int64()),
                    ("defaultRowCommitVersion", pa.int64()),
                    ("deletionVector", _DELETION_VECTOR),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("size", pa.int64()),
                    ("deletionVector", _DELETION_VECTOR),
                ]
            ),
        ),
    ]
)
_TYPES = pa_json.ParseOptions(explicit_schema=_CHECKED, unexpected_field_behavior="ignore")
_BLOCKS = pa_json.ReadOptions(block_size=16 << 20)
_MOST_PIECES = 64
_REQUIRED = {"add": ("path", "size"), "remove": ("path",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatch:
    """Commits in ascending order of version, as lines of JSON.

    files:  every commit of the batch, ascending.
    lines:  LINES_SCHEMA; the non-blank lines of the small commits, in the order of the log; line_number from 1.
    large:  the commits that are not in `lines`, ascending.
    digests: SHA-256 of the bytes of each commit, by version.
    """

    files: tuple[FileStatus, ...]
    lines: pa.Table
    large: tuple[FileStatus, ...]
    digests: Mapping[int, str] = field(default_factory=dict)

    def __add__(self, newer: CommitBatch) -> CommitBatch:
        """Give these commits followed by newer ones."""
        return CommitBatch(
            files=self.files + newer.files,
            lines=_in_one_piece([self.lines, newer.lines]),
            large=self.large + newer.large,
            digests={**self.digests, **newer.digests},
        )

    def after(self, version: int) -> CommitBatch:
        """Give the commits above a version."""
        return CommitBatch(
            files=tuple(file for file in self.files if commit_version(file.path) > version),
            lines=self.lines.filter(pc.greater(self.lines["commit_version"], version)),
            large=tuple(file for file in self.large if commit_version(file.path) > version),
            digests={number: digest for number, digest in self.digests.items() if number > version},
        )

    def up_to(self, version: int) -> CommitBatch:
        """Give the commits up to a version."""
        return CommitBatch(
            files=tuple(file for file in self.files if commit_version(file.path) <= version),
            lines=self.lines.filter(pc.less_equal(self.lines["commit_version"], version)),
            large=tuple(file for file in self.large if commit_version(file.path) <= version),
            digests={number: digest for number, digest in self.digests.items() if number <= version},
        )

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all the lines, those of the large commits too."""
        return int(self.lines.nbytes) + sum(file.size for file in self.large)

    @property
    def is_large(self) -> bool:
        """Whether the work on these commits is worth more than one task."""
        return self.size_in_bytes > LARGE_COMMIT_BYTES

    def lines_matching(self, pattern: str) -> pa.Table:
        """Give the lines in memory that match a regular expression: a cheap first choice, to be parsed after."""
        return self.lines.filter(pc.match_substring_regex(self.lines["line"], pattern))


EMPTY_BATCH = CommitBatch(files=(), lines=LINES_SCHEMA.empty_table(), large=())


def read_commits(store: LogStore, commits: Sequence[FileStatus]) -> CommitBatch:
    """Read commits, given in ascending order, and check that each line is JSON with file actions of the right types.

    Errors: CorruptLogError naming the file, and the line where there is one.
    Source: PROTOCOL.md, Delta Log Entries.
    """
    small: list[FileStatus] = []
    large: list[FileStatus] = []
    held = 0
    for commit in commits:
        held += commit.size
        fits = commit.size <= LARGE_COMMIT_BYTES and held <= IN_MEMORY_BYTES
        (small if fits else large).append(commit)
    for commit in large:
        _check_streaming(store, commit)
    contents = _read_all(store, small)
    digests = {commit_version(commit.path): digest_of_file(store, commit.path) for commit in large}
    digests |= {commit_version(c.path): digest_of(content) for c, content in zip(small, contents, strict=True)}
    lines = _checked_lines(small, contents)
    return CommitBatch(files=tuple(commits), lines=lines, large=tuple(large), digests=digests)


def iterate_lines(store: LogStore, commit: FileStatus) -> Iterator[tuple[int, str]]:
    """Yield (line_number, line) of one commit without holding it, blank lines left out."""
    try:
        with store.open(commit.path) as stream:
            for number, raw in enumerate(stream, start=1):
                if raw.strip():
                    yield number, raw.decode("utf-8")
    except FileNotFoundError as error:
        raise CorruptLogError(path=commit.path, reason="expected a commit, found no file") from error
    except UnicodeDecodeError as error:
        raise CorruptLogError(path=commit.path, reason=f"expected UTF-8, found {error}") from error


def parse_line(path: str, number: int, line: str) -> dict[str, Any]:
    """Parse one line into an action, keyed by its name.

    Errors: CorruptLogError naming file and line where it is no JSON object.
    """
    try:
        action = json.loads(line)
    except ValueError as error:
        raise CorruptLogError(path=path, line=number, reason=f"expected a line of JSON: {error}") from error
    if not isinstance(action, dict):
        raise CorruptLogError(path=path, line=number, reason=f"expected a JSON object, found {line[:80]!r}")
    return action


def lines_of(path: str, version: int, content: bytes) -> pa.Table:
    """Split a file into its non-blank lines (LINES_SCHEMA) without a Python object a line.

    Only a line feed ends a line: U+2028 and its kin may stand inside a JSON string.
    """
    split = pc.split_pattern(pa.array([content], pa.large_binary()), b"\n").values
    try:
        text = split.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptLogError(path=path, reason=f"expected UTF-8, found {error}") from error
    numbers = pa.array(range(1, len(text) + 1), pa.int32())
    lines = pa.table([pa.repeat(pa.scalar(version, pa.int64()), len(text)), numbers, text], schema=LINES_SCHEMA)
    return lines.filter(pc.greater(pc.utf8_length(pc.ascii_trim_whitespace(text)), 0))


def check_lines(path_of: dict[int, str], lines: pa.Table) -> None:
    """Check that every line is a JSON object whose file actions have the types of the protocol.

    Arrow's reader finds out fast that something is wrong; only then is each line parsed, to say where.
    """
    if not lines.num_rows:
        return
    block = b"\n".join(lines["line"].cast(pa.binary()).to_pylist())
    try:
        sound = _has_required_fields(
            pa_json.read_json(pa.BufferReader(block), read_options=_BLOCKS, parse_options=_TYPES)
        )
    except pa.ArrowException:
        sound = False
    if not sound:
        versions, numbers, texts = (lines[name].to_pylist() for name in LINES_SCHEMA.names)
        for version, number, text in zip(versions, numbers, texts, strict=True):
            _check_action(path_of[version], number, text)


def _read_all(store: LogStore, commits: Sequence[FileStatus]) -> list[bytes]:
    try:
        return store.read_many([commit.path for commit in commits])
    except FileNotFoundError as error:
        missing = next((commit.path for commit in commits if store.status(commit.path) is None), commits[0].path)
        raise CorruptLogError(path=missing, reason="expected a commit, found no file") from error


def _checked_lines(commits: Sequence[FileStatus], contents: Iterable[bytes]) -> pa.Table:
    tables = [
        lines_of(commit.path, commit_version(commit.path), content)
        for commit, content in zip(commits, contents, strict=True)
    ]
    lines = _in_one_piece(tables)
    check_lines({commit_version(commit.path): commit.path for commit in commits}, lines)
    return lines


def _in_one_piece(tables: Sequence[pa.Table]) -> pa.Table:
    joined = pa.concat_tables([LINES_SCHEMA.empty_table(), *tables])
    # Each piece is a batch of its own for Spark to take; joined only now and then, lest every update copy all.
    return joined.combine_chunks() if joined["line"].num_chunks > _MOST_PIECES else joined


def _check_streaming(store: LogStore, commit: FileStatus) -> None:
    try:
        with (
            store.open(commit.path) as stream,
            pa_json.open_json(pa.PythonFile(stream, mode="r"), read_options=_BLOCKS, parse_options=_TYPES) as reader,
        ):
            sound = all(_has_required_fields(pa.Table.from_batches([batch])) for batch in reader)
    except FileNotFoundError as error:
        raise CorruptLogError(path=commit.path, reason="expected a commit, found no file") from error
    except pa.ArrowException:
        sound = False
    if not sound:
        for number, line in iterate_lines(store, commit):
            _check_action(commit.path, number, line)


def _has_required_fields(actions: pa.Table) -> bool:
    """Whether no file action lacks a field without which the replay would pass it over in silence."""
    return all(
        pc.struct_field(actions[kind], field).null_count == actions[kind].null_count
        for kind, fields in _REQUIRED.items()
        for field in fields
    )


def _check_action(path: str, number: int, line: str) -> None:
    action = parse_line(path, number, line)
    try:
        if action.get("add") is not None:
            AddFile.from_json(action["add"])
        if action.get("remove") is not None:
            RemoveFile.from_json(action["remove"])
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptLogError(path=path, line=number, reason=str(error)) from error
