"""A batch of commits, each read once: actions for the driver and for Spark, provenance, a sample of files, digests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import model_validator

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.action_lines import (
    FILE_ACTIONS,
    LINES_SCHEMA,
    MEASURED_LINES,
    decode_line,
    lines_with,
    parse_fields,
)
from deltasnap_core.protocol.actions import CommitInfo
from deltasnap_core.protocol.json_records import JsonRecord, Long
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.redaction import safe_repr
from deltasnap_core.rules.paths import path_keys
from deltasnap_core.rules.totals.measures import has_negative_number
from deltasnap_core.storage.log_store import FileStatus

LARGE_COMMIT_BYTES = 16 << 20
"""Larger commits are not kept in memory: Spark reads them by path."""

SAMPLE_FILES = 20
"""The number of added or removed files that can be shown for any commit."""

_MAX_PIECES = 64
_SAMPLE_SCHEMA = pa.schema(
    [
        ("add", pa.struct([("path", pa.string()), ("size", pa.int64())])),
        ("remove", pa.struct([("path", pa.string()), ("size", pa.int64())])),
    ]
)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile(JsonRecord):
    """A file that a commit added (`change` is "+") or removed ("-").

    path: as in the log.
    size: bytes; None: the commit does not state it.
    """

    json_name = "commit.sample"

    change: str
    path: str
    size: Long | None

    def to_json(self) -> list[str | int | None]:  # type: ignore[override]  # an array is shorter
        """Return the JSON array: change, path and size."""
        return [self.change, self.path, self.size]

    @model_validator(mode="before")
    @classmethod
    def _of_array(cls, values: object) -> object:
        if not isinstance(values, list) or len(values) != len(names := ("change", "path", "size")):
            return values
        return dict(zip(names, values, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCommit:
    """Facts about a commit that was read, without its lines.

    digest:       SHA-256 of its bytes, in hex.
    file_actions: the number of files that it adds and removes.
    sample:       the first SAMPLE_FILES of these files, for a large commit; otherwise empty.
    is_large:     whether its file actions are not kept in memory.
    has_negative_numbers: whether a size, a number of records or a number of deleted rows is negative.
    has_data_change: whether the `dataChange` of a file action is not false.
    """

    file: FileStatus
    digest: str
    file_actions: int
    sample: tuple[ChangedFile, ...]
    is_large: bool
    has_negative_numbers: bool
    has_data_change: bool

    @property
    def version(self) -> int:
        """The version that the commit creates."""
        return commit_version(self.file.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatch:
    """Commits in ascending order of version.

    commits: every commit of the batch, ascending.
    lines:   LINES_SCHEMA; the lines with actions, in log order, as `action_lines` parses them. Large commits have no
             lines of file actions here.
    large_measures: MEASURED_LINES; the file actions of the large commits; None: too many to hold.
    """

    commits: tuple[ParsedCommit, ...]
    lines: pa.Table
    large_measures: pa.Table | None

    def __add__(self, newer: CommitBatch) -> CommitBatch:
        """Return these commits followed by newer ones."""
        measures = (self.large_measures, newer.large_measures)
        return CommitBatch(
            commits=self.commits + newer.commits,
            lines=in_one_piece([self.lines, newer.lines], LINES_SCHEMA),
            large_measures=None if any(each is None for each in measures) else in_one_piece(measures, MEASURED_LINES),
        )

    def after(self, version: int) -> CommitBatch:
        """Return the commits above a version."""
        return CommitBatch(
            commits=tuple(commit for commit in self.commits if commit.version > version),
            lines=_where(self.lines, version, above=True),
            large_measures=None if self.large_measures is None else _where(self.large_measures, version, above=True),
        )

    def up_to(self, version: int) -> CommitBatch:
        """Return the commits up to a version."""
        return CommitBatch(
            commits=tuple(commit for commit in self.commits if commit.version <= version),
            lines=_where(self.lines, version, above=False),
            large_measures=None if self.large_measures is None else _where(self.large_measures, version, above=False),
        )

    @property
    def files(self) -> tuple[FileStatus, ...]:
        """The file of every commit, ascending."""
        return tuple(commit.file for commit in self.commits)

    @property
    def large(self) -> tuple[FileStatus, ...]:
        """The large commits that have file actions, ascending.

        Spark reads them by path: all their lines have the usual form.
        """
        return tuple(commit.file for commit in self.commits if commit.is_large and commit.file_actions)

    @property
    def digests(self) -> dict[int, str]:
        """SHA-256 of the bytes of each commit, in hex, by version."""
        return {commit.version: commit.digest for commit in self.commits}

    @property
    def num_file_actions(self) -> int:
        """The number of file actions, including those of large commits."""
        return sum(commit.file_actions for commit in self.commits)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all lines, including those of large commits."""
        return int(self.lines["line"].nbytes) + sum(file.size for file in self.large)

    @property
    def is_large(self) -> bool:
        """Whether the commits are large enough for more than one Spark task."""
        return self.size_in_bytes > LARGE_COMMIT_BYTES

    @property
    def measures(self) -> pa.Table | None:
        """The file actions of all commits (MEASURED_LINES), in any order. None: too many to hold."""
        if self.large_measures is None:
            return None
        held = lines_with(self.lines.drop_columns("line"), *FILE_ACTIONS).select(MEASURED_LINES.names)
        return pa.concat_tables([held, self.large_measures])

    @property
    def versions_with_negative_numbers(self) -> frozenset[int]:
        """The versions with a file action whose size, number of records or number of deleted rows is negative."""
        return frozenset(commit.version for commit in self.commits if commit.has_negative_numbers)

    @property
    def blank_versions(self) -> frozenset[int]:
        """The versions whose commits have no line, or only blank ones."""
        with_lines = {*pc.unique(self.lines["commit_version"]).to_pylist()}
        return frozenset({commit.version for commit in self.commits if not commit.file_actions} - with_lines)

    @property
    def contradictory_versions(self) -> frozenset[int]:
        """The versions whose commit adds and removes one file: the same path, in any spelling, with the same vector.

        Empty if the file actions are too many to hold.
        """
        rows = self.measures
        if rows is None:
            return frozenset()
        is_removed = pc.is_valid(rows["deleted_at"])
        removed, added = rows.filter(is_removed), rows.filter(pc.invert(is_removed))
        in_both = [pc.unique(each["commit_version"]) for each in (removed, added)]
        removed = self._keyed(removed.filter(pc.is_in(removed["commit_version"], in_both[1])))
        added = self._keyed(added.filter(pc.is_in(added["commit_version"], in_both[0])))
        if not removed.num_rows:
            return frozenset()
        return frozenset(removed.join(added, removed.column_names, join_type="left semi")["commit_version"].to_pylist())

    def repeating_versions(self, action: Literal["add", "remove"]) -> frozenset[int]:
        """Return the versions whose commit adds, or removes, one path several times: any spelling, any deletion vector.

        Empty if the file actions are too many to hold.
        Source: PROTOCOL.md, Add File and Remove File.
        """
        rows = self.measures
        if rows is None:
            return frozenset()
        select = pc.is_null if action == "add" else pc.is_valid
        found = self._keyed(rows.filter(select(rows["deleted_at"])))
        counts = found.group_by(["commit_version", "path_key"]).aggregate([([], "count_all")])
        return frozenset(counts["commit_version"].filter(pc.greater(counts["count_all"], 1)).to_pylist())

    def _keyed(self, measures: pa.Table) -> pa.Table:
        """Return the version and the logical file of each file action."""
        paths = measures["path"].combine_chunks()
        # Any path in the log gives its file system, which absolute paths without a scheme need.
        keys = path_keys(paths, self.commits[0].file.path) if len(paths) else paths
        return measures.select(["commit_version", "dv_id"]).append_column("path_key", keys)

    def lines_with(self, *actions: str) -> pa.Table:
        """Return the lines with one of these actions (LINES_SCHEMA).

        File actions of large commits are not included.
        """
        return lines_with(self.lines, *actions)

    def actions(self, *names: str) -> Iterator[tuple[ParsedCommit, int, str, Any]]:
        """Yield the commit, line number, name and decoded value of each of these actions, in log order.

        Errors: CorruptLogError naming file and line.
        """
        commits = {commit.version: commit for commit in self.commits}
        for row in self.lines_with(*names).to_pylist():
            commit, number, name = commits[row["commit_version"]], row["line_number"], row["action"]
            yield commit, number, name, decode_line(commit.file.path, number, row["line"])[name]

    def commit_infos(self) -> dict[int, CommitInfo | None]:
        """Return the first commitInfo of each commit, by version; None: it has none.

        Errors: CorruptLogError naming file and line.
        """
        found: dict[int, CommitInfo | None] = {}
        for commit, number, _, values in self.actions("commitInfo"):
            if commit.version not in found:
                found[commit.version] = commit_info(commit.file.path, number, values)
        return {commit.version: found.get(commit.version) for commit in self.commits}

    def samples(self, most: int) -> dict[int, tuple[ChangedFile, ...]]:
        """Return the first `most` files that each commit adds or removes, in commit order; at most SAMPLE_FILES."""
        is_change = pc.is_in(self.lines["action"], pa.array(FILE_ACTIONS)).to_numpy()
        held = first_files(self.lines, np.flatnonzero(is_change), min(most, SAMPLE_FILES))
        return {
            commit.version: commit.sample[:most] if commit.is_large else held.get(commit.version, ())
            for commit in self.commits
        }


EMPTY_BATCH = CommitBatch(
    commits=(), lines=pa.Table.from_batches([], LINES_SCHEMA), large_measures=pa.Table.from_batches([], MEASURED_LINES)
)


def versions_with_negative_numbers(measures: pa.Table) -> frozenset[int]:
    """Return the versions of rows with MEASURED_LINES that have a negative number."""
    return frozenset(measures["commit_version"].filter(has_negative_number(measures)).to_pylist())


def versions_with_data_changes(lines: pa.Table) -> frozenset[int]:
    """Return the versions of lines (LINES_SCHEMA) with a file action that changes data."""
    return frozenset(pc.unique(lines["commit_version"].filter(lines["data_change"])).to_pylist())


def first_files(lines: pa.Table, changed: NDArray[np.intp], most: int) -> dict[int, tuple[ChangedFile, ...]]:
    """Return the first `most` files of each commit, by version.

    lines: LINES_SCHEMA, versions ascending. changed: the indexes of the lines with file actions.
    """
    versions = lines["commit_version"].to_numpy()[changed]
    place = np.arange(len(versions)) - np.searchsorted(versions, versions)
    sampled = lines.take(changed[place < most])
    found: dict[int, tuple[ChangedFile, ...]] = {}
    for version, file in zip(sampled["commit_version"].to_pylist(), _changed_files(sampled), strict=True):
        found[version] = (*found.get(version, ()), file)
    return found


def _changed_files(lines: pa.Table) -> list[ChangedFile]:
    return [
        ChangedFile(change=change, **row[name])
        for row in parse_fields(lines, _SAMPLE_SCHEMA).to_pylist()
        for name, change in (("add", "+"), ("remove", "-"))
        if row[name] is not None
    ]


def commit_info(path: str, number: int, values: Any) -> CommitInfo:
    """Return the commitInfo of a line from its decoded value. Errors: CorruptLogError naming file and line."""
    try:
        return CommitInfo.from_json(values)
    except ValueError as error:
        raise CorruptLogError(path=path, line=number, reason=str(error)) from error


def in_one_piece(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return one table from several, with a limited number of chunks: Spark takes one batch for each chunk."""
    joined = pa.concat_tables([schema.empty_table(), *tables])
    # Combine chunks only occasionally, so that an update does not copy all rows.
    return joined.combine_chunks() if joined.column(0).num_chunks > _MAX_PIECES else joined


def _where(table: pa.Table, version: int, *, above: bool) -> pa.Table:
    compare = pc.greater if above else pc.less_equal
    return table.filter(compare(table["commit_version"], version))
