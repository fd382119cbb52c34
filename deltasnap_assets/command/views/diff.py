"""`deltasnap diff`: the differences between two versions. It uses no Spark.

It reads the commits between them. Of the earlier version, it reads only the files that these commits change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console

from deltasnap_assets.command.terminal import print_line, shown
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.quantities import bytes_text, counted
from deltasnap_assets.tables.changes import domain_changes, metadata_changes, protocol_changes
from deltasnap_core import (
    DeltaSnapError,
    FileStatus,
    TableLog,
    VersionGapError,
    VersionLog,
    VersionRanges,
)
from deltasnap_core.support import file_difference, read_commits

_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalFile:
    """A data file with its deletion vector. path: as in the log. size: bytes; None: unknown. vector_id: None: none."""

    path: str
    size: int | None
    vector_id: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the file as JSON."""
        vector = {} if self.vector_id is None else {"deletion_vector_id": self.vector_id}
        return {"path": self.path, "size": self.size, **vector}


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """The differences of version `last` from the earlier version `first`.

    changes: of schema, properties, protocol and domains, as text. added, removed: the logical files that only one of
    the two has. operations: of the versions between, ascending.
    files_with_other_vector: paths of which both have a file, with different deletion vectors. Such a file is removed
                             and added.
    assumed: why the files of `first` cannot be read; None: they were read. If they cannot, only the commits between are
             used: a file was live in `first` if the first commit that names it removes it.
    """

    first: int
    last: int
    operations: tuple[tuple[int, str], ...]
    changes: tuple[str, ...]
    added: tuple[LogicalFile, ...]
    removed: tuple[LogicalFile, ...]
    files_with_other_vector: int
    assumed: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        values = asdict(self)
        values["operations"] = [{"version": version, "operation": name} for version, name in self.operations]
        for name in ("added", "removed"):
            values[name] = [file.to_json() for file in getattr(self, name)]
        return values


def compare_versions(path: str, storage_options: Mapping[str, Any], one: int, other: int) -> VersionDiff:
    """Return the differences between two versions, given in any order.

    Errors: FaultyTableError if a fault of the log is the cause; the errors of finding and loading either version, of
    which VersionNotFoundError states the existing versions; those of the commits between them, and DeltaSnapError for
    one with too many files to compare them in memory.
    """
    first, last = sorted((one, other))
    with explaining(path, storage_options, one, other):
        log = TableLog.for_path(path, storage_options)
        before, after = log.at(first), log.at(last)
        # Never a range of versions: a wrong argument, or one stray file, makes it too long for memory.
        listed = log.list(first).commits
        commits = {version: file for version, file in listed.items() if first < version <= last}
    missing = VersionRanges.between(first + 1, last, commits)
    with explaining(path, storage_options, first, last, *commits, *(start for start, _ in missing.runs)):
        return _difference(log, before.read(), after.read(), list(commits.values()), missing)


def _difference(
    log: TableLog, before: VersionLog, after: VersionLog, commits: Sequence[FileStatus], missing: VersionRanges
) -> VersionDiff:
    """Return the differences between two versions. commits: those between them. missing: the lost ones."""
    changes = (
        *metadata_changes(before.metadata, after.metadata),
        *protocol_changes(before.protocol, after.protocol),
        *_domain_changes(before, after),
    )
    if missing:
        raise VersionGapError(path=log.table_path, version=after.version, missing=missing)
    batch = read_commits(log.store, commits)
    files = file_difference(log.store, log.log_path, before, batch)
    if files is None:
        large = (*batch.large, *before.replayable.batch.large)[0].path
        raise DeltaSnapError(
            f"{large} is too large to compare in memory. Compare all_files of the two versions with Spark instead."
        )
    added, removed = _files(files.added), _files(files.removed)
    return VersionDiff(
        first=before.version,
        last=after.version,
        operations=tuple(
            (version, (info and info.operation) or "unknown") for version, info in batch.commit_infos().items()
        ),
        changes=changes,
        added=added,
        removed=removed,
        files_with_other_vector=len({file.path for file in added} & {file.path for file in removed}),
        assumed=None if files.assumed is None else str(files.assumed),
    )


def _domain_changes(before: VersionLog, after: VersionLog) -> Iterator[str]:
    try:
        yield from domain_changes(before.domains, after.domains)
    except DeltaSnapError as error:
        yield f"domains cannot be compared: {error}"


def show_diff(console: Console, diff: VersionDiff) -> None:
    """Print a difference."""
    console.print(f"version {diff.first} to {diff.last}: {counted(len(diff.operations), 'commit')}")
    for change in diff.changes:
        print_line(console, shown(f"  {change}"))
    for sign, files in (("+", diff.added), ("-", diff.removed)):
        sizes = [file.size for file in files if file.size is not None]
        size = bytes_text(sum(sizes)) if len(sizes) == len(files) else "size unknown"
        console.print(f"  {sign} {counted(len(files), 'file')}, {size}")
        for file in files[:_MAX_SHOWN]:
            print_line(console, shown(f"      {file.path}"))
        if len(files) > _MAX_SHOWN:
            console.print(f"      and {len(files) - _MAX_SHOWN:,} more; --json has all of them")
    if diff.files_with_other_vector:
        both = counted(diff.files_with_other_vector, "data file")
        console.print(f"  {both} with a different deletion vector: listed as removed and added")


def _files(rows: pa.Table) -> tuple[LogicalFile, ...]:
    found = (LogicalFile(**{**row, "vector_id": row["vector_id"] or None}) for row in rows.to_pylist())
    return tuple(sorted(found, key=lambda file: (file.path, file.vector_id or "")))
