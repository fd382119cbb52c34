"""`deltasnap history`: who committed what and when, newest first, with lost commits. Does not use Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

from rich.table import Column, Table

from deltasnap_assets.command.terminal import shown
from deltasnap_assets.command.views.condition_view import counted_versions, fault_of_commit
from deltasnap_assets.provenance import made_by, made_how
from deltasnap_assets.quantities import iso_time, time_text
from deltasnap_core import (
    CorruptLogError,
    DeltaHistory,
    DeltaSnapError,
    DeltaTableNotFoundError,
    Problem,
    ProblemKind,
    TableCondition,
    TableLog,
    VersionRanges,
    Where,
)
from deltasnap_core.errors import StorageError
from deltasnap_core.support import LogListing

_WIDTH_WITH_WRITER = 70
_SMALL_CHECKPOINT = _SMALL_COMMITS = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCommits:
    """The commits first to last, which are missing or unreadable, and the reason."""

    version: int
    last: int
    fault: Problem

    @property
    def text(self) -> str:
        """The reason, in a few words."""
        if self.fault.missing:
            lost = self.fault.versions
            return f"missing: {counted_versions(lost)} cannot be loaded" if lost else "missing"
        line = "" if self.fault.where.line is None else f"line {self.fault.where.line}: "
        return f"cannot be read: {line}{self.fault.reason}"


Entry = DeltaHistory | LostCommits
CommitColumn = tuple[Column, Callable[[DeltaHistory], str]]
"""A column of a table of commits, and its text for a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """The last commits of a table, newest first, and the condition of its log. Lost commits keep their place.

    is_cut: whether there are more commits.
    """

    entries: tuple[Entry, ...]
    condition: TableCondition
    is_cut: bool

    @property
    def faults(self) -> tuple[Problem, ...]:
        """The faults of the log, and those of the lost commits."""
        of_commits = (entry.fault for entry in self.entries if isinstance(entry, LostCommits))
        return (*self.condition.faults, *(fault for fault in of_commits if fault not in self.condition.faults))


def read_wanted_history(log: TableLog, limit: int, since_ms: int | None, operations: Collection[str]) -> ReadHistory:
    """Return the last commits of a table from a time on (None: all), of some operations (empty: of any).

    Lost commits may be wanted ones, so they are included.
    Errors: as `read_history`.
    """
    names, read = {name.casefold() for name in operations}, limit
    while True:
        found = read_history(log, read)
        recent = tuple(takewhile(partial(_is_since, since_ms), found.entries))
        entries = tuple(each for each in recent if not names or _operation(each) in (None, *names))
        is_end = not found.is_cut or len(recent) < len(found.entries)
        if len(entries) >= limit or is_end:
            return replace(found, entries=entries[:limit], is_cut=len(entries) > limit or not is_end)
        read *= 4


def _is_since(time_ms: int | None, entry: Entry) -> bool:
    return time_ms is None or isinstance(entry, LostCommits) or entry.timestamp >= time_ms


def _operation(entry: Entry) -> str | None:
    """Return the operation of a commit, without upper case; None: the commits are lost."""
    return None if isinstance(entry, LostCommits) else (entry.operation or "").casefold()


def read_history(
    log: TableLog, limit: int, end: int | None = None, condition: TableCondition | None = None
) -> ReadHistory:
    """Return the last commits of a table up to a version.

    condition: of the log; None: examine it here, without the pages of a large checkpoint.
    Of large commits, only the commitInfo is read.
    Errors: the errors of finding the table, and of reading its commits if nothing is known about any of them.
    """
    listing = log.list()
    if listing.latest_version is None:
        raise DeltaTableNotFoundError(path=log.table_path)
    every = [v for v in sorted(listing.commits, reverse=True) if end is None or v <= end]
    versions = every[:limit]
    holes = [(older + 1, newer - 1) for newer, older in pairwise(versions) if newer - older > 1]
    if versions and len(versions) < limit and not listing.checkpoints and versions[-1] > 0:
        holes.append((0, versions[-1] - 1))
    if condition is None:
        condition = log.condition(listing, max_page_bytes=_SMALL_CHECKPOINT).without(ProblemKind.WRONG_CHECKSUM)
    found: dict[int, Entry] = {}
    problem: DeltaSnapError | None = None
    try:
        found |= {each.version: each for each in log.history_of(listing).get_history(limit, end=end)}
    except (CorruptLogError, StorageError) as error:
        problem = error
        found |= {each.version: each for each in _one_by_one(log, listing, versions, condition)}
    unread = sum(listing.commits[version].size for version in versions if version in condition.unread)
    is_lost = holes or len(found) < len(versions) or 0 < unread <= _SMALL_COMMITS
    examined = log.condition(listing, first=versions[-1], read_pages=False) if is_lost else condition
    for first, last in (*((version, version) for version in versions), *holes):
        fault = fault_of_commit(examined, first)
        if fault is None and (first, last) in holes:  # other faults explain why no version needs these commits
            fault = _missing(first, last)
        if fault is not None:
            found[first] = LostCommits(version=first, last=last, fault=fault)
    if problem is not None and not found:
        raise problem
    entries = tuple(found[version] for version in sorted(found, reverse=True))
    return ReadHistory(entries=entries, condition=condition, is_cut=len(every) > limit)


def history_json(history: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return commits as JSON: `version`, `committed_at` (ISO 8601, UTC), then the fields of the commit.

    A range of lost commits has `version`, `last_version` and `fault`.
    """
    return [_json(entry) for entry in history]


def history_table(history: Sequence[Entry], width: int) -> Table:
    """Return commits as a table for a terminal of a width. On a narrow one, it does not show who committed."""
    # Truncated names are useless.
    what: CommitColumn = Column("operation and metrics", overflow="fold"), _operation_and_metrics
    by: CommitColumn = Column("by", overflow="fold"), _writer
    return commit_table(history, [by, what] if width >= _WIDTH_WITH_WRITER else [what])


def commit_table(history: Sequence[Entry], columns: Sequence[CommitColumn]) -> Table:
    """Return commits as a table: version, time, and these columns. The last one has the reason of lost commits."""
    first = (Column("version", no_wrap=True), Column("committed (UTC)", no_wrap=True))
    table = Table(*first, *(column for column, _ in columns), box=None, header_style="dim")
    for entry in history:
        if isinstance(entry, LostCommits):
            versions = f"{entry.version}" if entry.version == entry.last else f"{entry.version}-{entry.last}"
            table.add_row(versions, *[""] * len(columns), shown(entry.text), style="red")
            continue
        cells = (shown(cell(entry)) for _, cell in columns)
        table.add_row(str(entry.version), time_text(entry.timestamp).removesuffix(" UTC"), *cells)
    return table


def _writer(commit: DeltaHistory) -> str:
    found = made_by(commit)
    if list(found) != ["engine"]:
        found.pop("engine", None)
    return "; ".join(text if name in ("user", "engine") else f"{name} {text}" for name, text in found.items())


def _operation_and_metrics(commit: DeltaHistory) -> str:
    counts = ", ".join(f"{name}={value}" for name, value in _counts(commit.operation_metrics or {}))
    how = made_how(commit)
    notes = [
        f"read version {how['read_version']}" if "read_version" in how else "",
        how.get("isolation_level", ""),
        "blind append" if commit.is_blind_append else "",
    ]
    operation = commit.operation or "unknown"
    text = f"{operation}: {counts}" if counts else operation
    return f"{text} ({', '.join(filter(None, notes))})" if any(notes) else text


def _json(entry: Entry) -> dict[str, Any]:
    if isinstance(entry, LostCommits):
        return {"version": entry.version, "last_version": entry.last, "fault": entry.fault.to_json()}
    return {"version": entry.version, "committed_at": iso_time(entry.timestamp), **entry.to_json()}


def _one_by_one(
    log: TableLog, listing: LogListing, versions: Sequence[int], condition: TableCondition
) -> Iterator[DeltaHistory]:
    """Yield the commits that can be read."""
    newest = condition.newest_loadable
    # The properties of the latest version decide where timestamps are stored, and may be unreadable.
    properties: Mapping[str, str] = {}
    if newest is not None:
        # With the properties of a wrong checksum, times are missing or wrong.
        properties = log.at(newest).read().configuration
    history = log.history_of(listing, lambda: properties)
    for version in versions:
        with suppress(CorruptLogError, StorageError):
            yield from history.get_history(start=version, end=version)


def _missing(first: int, last: int) -> Problem:
    return Problem.of(ProblemKind.UNNEEDED_COMMIT, Where(versions=VersionRanges(((first, last),))))


def _counts(metrics: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield the metrics that are counts. Times, settings and objects are only in `--json`."""
    for name, value in sorted(metrics.items()):
        is_count = value is not None and value.isdecimal() and int(value) > 0
        if is_count and "time" not in name.lower():
            yield name, str(value)
