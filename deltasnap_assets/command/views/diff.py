"""`deltasnap diff`: the differences between two versions. It reads only the commits between them and no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from deltasnap_assets.command.terminal import shown
from deltasnap_assets.quantities import bytes_text, counted
from deltasnap_assets.tables.changes import metadata_changes, protocol_changes
from deltasnap_core import ChangedFile, DeltaSnapError, TableLog, VersionGapError, commit_file, read_commits

_MAX_SHOWN = 10


class LargeCommitError(DeltaSnapError):
    """The commit `path` lists too many files to compare them in memory."""

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} is too large to compare in memory. Compare all_files of the two versions with Spark instead."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDiff:
    """The differences of version `last` from the earlier version `first`.

    changes: of schema, properties and protocol, in words. added, removed: the files that only one of the two has.
    operations: of the versions between, ascending.
    """

    first: int
    last: int
    operations: tuple[tuple[int, str], ...]
    changes: tuple[str, ...]
    added: tuple[ChangedFile, ...]
    removed: tuple[ChangedFile, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON."""
        values = asdict(self)
        values["operations"] = [{"version": version, "operation": name} for version, name in self.operations]
        for name in ("added", "removed"):
            values[name] = [{"path": file.path, "size": file.size} for file in getattr(self, name)]
        return values


def compare_versions(path: str, storage_options: Mapping[str, Any], one: int, other: int) -> VersionDiff:
    """Return the differences between two versions, given in any order.

    Errors: those of loading either version, and VersionGapError if the log has lost a commit between them.
    """
    first, last = sorted((one, other))
    log = TableLog.for_path(path, storage_options)
    before, after = log.at(first), log.at(last)
    changes = (*metadata_changes(before.metadata, after.metadata), *protocol_changes(before.protocol, after.protocol))
    between = range(first + 1, last + 1)
    commits = {version: log.store.status(f"{log.log_path}/{commit_file(version)}") for version in between}
    if missing := tuple(version for version, file in commits.items() if file is None):
        raise VersionGapError(path=log.table_path, version=last, missing=missing)
    began: dict[str, ChangedFile] = {}
    ended: dict[str, ChangedFile] = {}
    batch = read_commits(log.store, [file for file in commits.values() if file is not None])
    if batch.large:
        raise LargeCommitError(path=batch.large[0].path)
    for _, _, name, values in batch.actions("add", "remove"):
        change = "+" if name == "add" else "-"
        changed = ChangedFile(change=change, path=values["path"], size=values.get("size"))
        began.setdefault(changed.path, changed)
        ended[changed.path] = changed
    history = log.history.get_history(start=first + 1, end=last) if last > first else []
    return VersionDiff(
        first=first,
        last=last,
        operations=tuple((commit.version, commit.operation or "unknown") for commit in reversed(history)),
        changes=changes,
        added=_of_both(began, ended, "+"),
        removed=_of_both(began, ended, "-"),
    )


def show_diff(console: Console, diff: VersionDiff) -> None:
    """Print a difference."""
    console.print(f"version {diff.first} to {diff.last}: {counted(len(diff.operations), 'commit')}")
    for change in diff.changes:
        console.print(shown(f"  {change}"))
    for sign, files in (("+", diff.added), ("-", diff.removed)):
        size = bytes_text(sum(file.size or 0 for file in files))
        console.print(f"  {sign} {counted(len(files), 'file')}, {size}")
        for file in files[:_MAX_SHOWN]:
            console.print(shown(f"      {file.path}"))
        if len(files) > _MAX_SHOWN:
            console.print(f"      and {len(files) - _MAX_SHOWN:,} more; --json has all of them")


def _of_both(
    began: Mapping[str, ChangedFile], ended: Mapping[str, ChangedFile], change: str
) -> tuple[ChangedFile, ...]:
    """Return the files whose first and last change is `change`. Excludes files added and removed again, or put back."""
    return tuple(file for path, file in ended.items() if file.change == change == began[path].change)
