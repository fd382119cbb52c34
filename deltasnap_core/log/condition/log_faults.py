"""The faults of an examined log: damaged, missing, empty and ambiguous files, and versions that are not readable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

from deltasnap_core.errors import CorruptLogError, StorageError, UnsupportedProtocolError
from deltasnap_core.log.checksum_validation import compare_actions_with_log, compare_time_with_log
from deltasnap_core.log.condition.access_faults import storage_fault
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.loadable_versions import SOUND, ExaminedState, Unloadable
from deltasnap_core.log.condition.problem import NOWHERE, Problem, Where
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.log.condition.table_condition import wrong_checksum
from deltasnap_core.log.history.commit_timestamps import decreasing, in_commit_timestamp
from deltasnap_core.log.listing.catalog_commits import asks_catalog
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.log_files.file_names import (
    STAGED_COMMIT_FOLDER,
    LogFileKind,
    ParsedLogPath,
    listing_prefix,
)
from deltasnap_core.protocol.properties.table_config import in_commit_timestamp_enablement, in_commit_timestamps_enabled
from deltasnap_core.protocol.table_features import check_readable, is_catalog_managed
from deltasnap_core.ranges import NO_VERSIONS, VersionRanges
from deltasnap_core.storage.urls import join_url

_SHORTEST_LINE = len("{}")
# The actions that a commit may have once, or once for each value of a key: the order in a commit does not count.
_ONCE: dict[ProblemKind, tuple[type, Callable[[Any], object]]] = {
    ProblemKind.REPEATED_METADATA: (Metadata, lambda _: None),
    ProblemKind.REPEATED_PROTOCOL: (Protocol, lambda _: None),
    ProblemKind.REPEATED_TRANSACTION: (SetTransaction, lambda txn: txn.app_id),
    ProblemKind.REPEATED_DOMAIN_METADATA: (DomainMetadata, lambda metadata: metadata.domain),
}
_OF_FILES = (ProblemKind.CONTRADICTORY_COMMIT, ProblemKind.REPEATED_ADD, ProblemKind.REPEATED_REMOVE)
_DAY_MS = 24 * 3600 * 1000  # no clock of a writer differs so much by accident, and no time zone does


def commit_faults(table: str, unloadable: Iterable[Unloadable]) -> Iterator[Problem]:
    for each in unloadable:
        match each.error:
            case None if each.missing is not None:
                where = Where(versions=VersionRanges((each.missing,)))
                yield Problem.of(ProblemKind.MISSING_COMMIT, where, each.versions, table=table)
            case CorruptLogError() as error:
                yield _corrupt_commit(each.start, error, each.versions)
            case UnsupportedProtocolError() as error:
                yield _unsupported(error, each.versions)
            case StorageError() as error:
                yield storage_fault(error, each.versions)


def empty_commit_faults(table: str, listing: LogListing, commits: CommitFindings) -> Iterator[Problem]:
    # A commit that was not read is known to be empty only if it is too short for any line.
    short = {v for v, commit in listing.commits.items() if commit.size < _SHORTEST_LINE}
    if empty := commits.versions_with(ProblemKind.EMPTY_COMMIT) | short.difference(commits.versions):
        yield Problem.of(ProblemKind.EMPTY_COMMIT, Where(versions=VersionRanges.of(sorted(empty))), table=table)


def ambiguous_commit_faults(table: str, commits: CommitFindings) -> Iterator[Problem]:
    found = {
        **{kind: _repeating(commits, *once) for kind, once in _ONCE.items()},
        **{kind: commits.versions_with(kind) for kind in _OF_FILES},
    }
    for kind, versions in found.items():
        if versions:
            yield Problem.of(kind, Where(versions=VersionRanges.of(versions)), table=table)


def _repeating(commits: CommitFindings, action: type, value_of: Callable[[Any], object]) -> set[int]:
    """Return the versions whose commits have several actions of a kind with the same value."""
    values = {v: [value_of(each) for each in found if isinstance(each, action)] for v, found in commits.actions.items()}
    return {version for version, found in values.items() if len({*found}) < len(found)}


def partition_column_faults(table: str, metadata: Metadata) -> Iterator[Problem]:
    """Yield the fault of metadata that names a partition column twice, ignoring case as Spark does."""
    names = Counter(column.lower() for column in metadata.partition_columns)
    if repeated := [name for name, count in names.items() if count > 1]:
        columns = f"{list(metadata.partition_columns)!r:.200}"
        yield Problem.of(ProblemKind.REPEATED_PARTITION_COLUMN, table=table, column=repr(repeated[0]), columns=columns)


def negative_number_faults(table: str, files: ExaminedFiles, commits: CommitFindings) -> Iterator[Problem]:
    if versions := VersionRanges.of(sorted(files.negative | commits.versions_with(ProblemKind.NEGATIVE_NUMBER))):
        yield Problem.of(ProblemKind.NEGATIVE_NUMBER, Where(versions=versions), table=table)


def checksum_faults(files: ExaminedFiles, commits: CommitFindings, newest: ExaminedState) -> Iterator[Problem]:
    """Yield the fault of a checksum of the latest version that differs from its non-file actions.

    newest: the newest known state, of a log that was read without gaps.
    """
    checksum = files.read_checksum() if newest.last == files.latest else None
    if checksum is None or newest.actions.metadata is None:
        return
    found = compare_actions_with_log(checksum, newest.actions)
    if files.latest in commits.infos:
        info = commits.infos[files.latest]
        found += compare_time_with_log(checksum, None if info is None else info.in_commit_timestamp)
    if found:
        path = files.listing.checksums[files.latest].path
        yield wrong_checksum(files.latest, path, [each.field for each in found])


def checkpoint_faults(files: ExaminedFiles, loadable: VersionRanges) -> Iterator[Problem]:
    """Yield the faults of damaged checkpoints. loadable: the versions that can be loaded without them."""
    for provider, error in files.broken.items():
        if isinstance(error, CorruptLogError):
            where = Where.of(error.path, provider.version)
            yield _checkpoint_fault(files, where, error.reason, loadable)
    sound = -1 if files.checkpoint is None else files.checkpoint.version
    for unusable, reason in files.listing.unusable_checkpoints:
        if unusable.version > sound:
            where = Where.of(unusable.files[0].path, unusable.version)
            yield _checkpoint_fault(files, where, reason, loadable)


def protocol_faults(table: str, states: Iterable[ExaminedState]) -> Iterator[Problem]:
    """Yield the faults of versions that have all files but are not readable, by protocol or missing action."""
    for last, run in groupby(states, key=lambda state: state.last):
        problem: Problem | None = None
        since, checked = last, None
        for state in run:
            if state.actions is checked:
                continue
            checked = state.actions
            found = _problem_of(table, state.actions, state.version)
            if _is_same(found, problem):
                continue
            if problem is not None:
                yield replace(problem, versions=VersionRanges(((since, state.version - 1),)))
            problem, since = found, state.version
        if problem is not None:
            yield replace(problem, versions=VersionRanges(((since, last),)))


def timestamp_faults(
    listing: LogListing, commits: CommitFindings, states: Sequence[ExaminedState], now_ms: int
) -> Iterator[Problem]:
    """Yield the faults of timestamps: in-commit ones that are required and missing, or decrease; any in the future.

    Without in-commit timestamps, those of the files count.
    Source: PROTOCOL.md, In-Commit Timestamps.
    """
    table = table_path(listing.log_path)
    errors: dict[int, CorruptLogError] = {}
    times: dict[int, int] = {}
    if (newest_sound := commits.newest_sound) is not None and newest_sound.has_own_time:
        times[newest_sound.version] = newest_sound.timestamp
    for state in states:
        if state.version in commits.infos and in_commit_timestamps_enabled(state.actions.configuration):
            try:
                commit, info = listing.commits[state.version], commits.infos[state.version]
                times[state.version] = in_commit_timestamp(commit, info)
            except CorruptLogError as error:
                errors[state.version] = error
    for first, last in VersionRanges.of([*errors]).runs:
        yield _corrupt_commit(first, errors[first], VersionRanges(((first, last),)))
    runs = [range(first, last + 1) for first, last in VersionRanges.of(sorted(times)).runs]
    if found_at := [version for run in runs for version in decreasing({each: times[each] for each in run})]:
        yield Problem.of(ProblemKind.DECREASING_TIMESTAMP, Where(versions=VersionRanges.of(found_at)), table=table)
    newest = states[-1].actions if states else SOUND
    is_known = newest.metadata is not None and newest.metadata is not SOUND.metadata
    if is_known and not in_commit_timestamps_enabled(newest.configuration):
        times |= {v: commit.modification_time for v, commit in listing.commits.items()}
    late = (version for version, time in times.items() if time > now_ms + _DAY_MS and version not in commits.sound)
    if future := VersionRanges.of(sorted(late)):
        yield Problem.of(ProblemKind.FUTURE_TIMESTAMP, Where(versions=future), table=table)


def unpublished_commit_faults(builder: LogSegmentBuilder, latest: int, newest: NonFileActions) -> Iterator[Problem]:
    """Yield the fault of staged commits after the latest version. Only the catalog knows which of them it ratified.

    Source: PROTOCOL.md, Catalog-managed tables.
    """
    if not is_catalog_managed(newest.protocol) or asks_catalog(builder.store):
        return
    folder = join_url(builder.log_path, STAGED_COMMIT_FOLDER)
    versions = set[int]()
    with suppress(FileNotFoundError):
        for file in builder.store.list_from(join_url(folder, listing_prefix(latest + 1))):
            parsed = ParsedLogPath.parse(file.name)
            if parsed is not None and parsed.kind is LogFileKind.STAGED_COMMIT:
                versions.add(parsed.version)
    if versions:
        where = Where(versions=VersionRanges.of(versions))
        yield Problem.of(ProblemKind.UNPUBLISHED_COMMIT, where, table=table_path(builder.log_path), latest=latest)


def enablement_faults(table: str, newest: NonFileActions) -> Iterator[Problem]:
    """Yield the fault of properties that state only the version, or only the time, that enabled commit timestamps."""
    version, timestamp = in_commit_timestamp_enablement(newest.configuration)
    if in_commit_timestamps_enabled(newest.configuration) and (version is None) != (timestamp is None):
        yield Problem.of(ProblemKind.INCOMPLETE_ENABLEMENT, table=table)


def _corrupt_commit(version: int, error: CorruptLogError, versions: VersionRanges) -> Problem:
    where = Where.of(error.path, version, line=error.line)
    return Problem.of(ProblemKind.CORRUPT_COMMIT, where, versions, reason=error.reason)


def _checkpoint_fault(files: ExaminedFiles, where: Where, reason: str, loadable: VersionRanges) -> Problem:
    """Return the fault of a checkpoint that cannot be read, with the files that replace it, if there are any."""
    version = where.versions[0]
    end = min((known for known in files.states if known > version), default=files.latest + 1) - 1
    if min(version, files.latest) not in loadable:
        lost = VersionRanges.of(v for v in range(version, max(version, end) + 1) if v not in loadable)
        return Problem.of(ProblemKind.CORRUPT_CHECKPOINT, where, lost, reason=reason)
    start = max((known for known in files.states if known <= version), default=None)
    count = sum(1 for commit in files.listing.commits if (-1 if start is None else start) < commit <= end)
    commits = "1 commit" if count == 1 else f"{count:,} commits"
    if start is None:
        instead = f"the {commits} from version 0 on"
    else:
        instead = f"{'another' if start == version else 'the'} checkpoint of version {start}"
        instead += f" and the {commits} after it" if count else ""
    return Problem.of(ProblemKind.CORRUPT_CHECKPOINT, where, reason=reason, read_instead=instead)


def _problem_of(table: str, state: NonFileActions, version: int) -> Problem | None:
    """Return why a version with all files is not readable, without the other versions that are not for that reason."""
    for action, found in (("protocol", state.protocol), ("metadata", state.metadata)):
        if found is None:
            where = Where.of(None, version)
            return Problem.of(ProblemKind.MISSING_ACTION, where, table=table, action=action)
    try:
        assert state.protocol is not None
        check_readable(state.protocol, path=table, version=version)
    except UnsupportedProtocolError as error:
        return _unsupported(error, NO_VERSIONS)
    return None


def _is_same(one: Problem | None, other: Problem | None) -> bool:
    """Return whether two versions are not readable for the same reason."""
    if one is None or other is None or one.kind is not other.kind:
        return one is other
    return one.facts.get("needs") == other.facts.get("needs")


def _unsupported(error: UnsupportedProtocolError, versions: VersionRanges) -> Problem:
    kind = ProblemKind.UNSUPPORTED_PROTOCOL if error.invalid is None else ProblemKind.INVALID_PROTOCOL
    needs = error.invalid or ", ".join(error.features) or f"reader version {error.min_reader_version}"
    return Problem.of(kind, NOWHERE, versions, error=str(error), needs=needs)
