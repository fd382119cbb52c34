"""The faults of an examined log: damaged, missing, empty and ambiguous files, and versions that are not readable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from deltasnap_core.errors import CorruptLogError, StorageError, UnsupportedProtocolError
from deltasnap_core.log.checksum_validation import compare_actions_with_log
from deltasnap_core.log.condition.access_faults import storage_fault
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.fault import Fault, FaultKind
from deltasnap_core.log.condition.fault_messages import (
    ambiguous_commits,
    contradictory_commits,
    corrupt_checkpoint,
    corrupt_commit,
    decreasing_timestamps,
    doubted_checkpoint,
    empty_commits,
    future_timestamps,
    incomplete_enablement,
    missing_commits,
    negative_numbers,
    repeated_partition_column,
    repeated_removes,
    repeating_commits,
    unpublished_commits,
    wrong_checksum,
)
from deltasnap_core.log.condition.loadable_versions import SOUND, ExaminedState, SoundVersion, Unloadable
from deltasnap_core.log.history.commit_timestamps import decreasing, in_commit_timestamp
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
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted
from deltasnap_core.storage.urls import join_url

_SHORTEST_LINE = len("{}")
# The actions that a commit may have once, or once for each value of a key: the order in a commit does not count.
_ONCE: tuple[tuple[type, str, str | None, Callable[[Any], object]], ...] = (
    (Metadata, "metaData", None, lambda _: None),
    (Protocol, "protocol", None, lambda _: None),
    (SetTransaction, "txn", "appId", lambda txn: txn.app_id),
    (DomainMetadata, "domainMetadata", "domain", lambda metadata: metadata.domain),
)
_DAY_MS = 24 * 3600 * 1000  # no clock of a writer differs so much by accident, and no time zone does


def commit_faults(table: str, unloadable: Iterable[Unloadable]) -> Iterator[Fault]:
    for each in unloadable:
        match each.error:
            case None if each.missing is not None:
                yield missing_commits(table, VersionRanges((each.missing,)), each.versions)
            case CorruptLogError(path=path, line=line, reason=reason):
                yield corrupt_commit(each.start, path, line, reason, each.versions)
            case UnsupportedProtocolError() as error:
                yield _unsupported(error, each.versions)
            case StorageError() as error:
                yield storage_fault(error, each.versions)


def empty_commit_faults(table: str, listing: LogListing, commits: CommitFindings) -> Iterator[Fault]:
    # A commit that was not read is known to be empty only if it is too short for any line.
    short = {v for v, commit in listing.commits.items() if commit.size < _SHORTEST_LINE}
    if empty := VersionRanges.of(sorted(commits.blank | short.difference(commits.versions))):
        yield empty_commits(table, empty)


def ambiguous_commit_faults(table: str, commits: CommitFindings) -> Iterator[Fault]:
    for kind, action, key, value_of in _ONCE:
        values = {
            v: [value_of(each) for each in found if isinstance(each, kind)] for v, found in commits.actions.items()
        }
        if versions := VersionRanges.of(sorted(v for v, found in values.items() if len({*found}) < len(found))):
            yield ambiguous_commits(redacted(table), action, versions, key)
    if versions := VersionRanges.of(sorted(commits.contradictory)):
        yield contradictory_commits(redacted(table), versions)
    if versions := VersionRanges.of(sorted(commits.repeating)):
        yield repeating_commits(redacted(table), versions)
    if versions := VersionRanges.of(sorted(commits.removing_again)):
        yield repeated_removes(redacted(table), versions)


def partition_column_faults(table: str, metadata: Metadata) -> Iterator[Fault]:
    """Yield the fault of metadata that names a partition column twice, ignoring case as Spark does."""
    names = Counter(column.lower() for column in metadata.partition_columns)
    if repeated := [name for name, count in names.items() if count > 1]:
        yield repeated_partition_column(redacted(table), repeated[0], metadata.partition_columns)


def negative_number_faults(table: str, files: ExaminedFiles, commits: CommitFindings) -> Iterator[Fault]:
    if versions := VersionRanges.of(sorted(files.negative | commits.negative)):
        yield negative_numbers(redacted(table), versions)


def checksum_faults(files: ExaminedFiles, commits: CommitFindings, newest: ExaminedState) -> Iterator[Fault]:
    """Yield the fault of a checksum of the latest version that differs from its non-file actions.

    newest: the newest known state, of a log that was read without gaps.
    """
    checksum = files.read_checksum() if newest.last == files.latest else None
    if checksum is None or newest.actions.metadata is None:
        return
    info, is_known = commits.infos.get(files.latest), files.latest in commits.infos
    time = None if info is None else info.in_commit_timestamp
    if found := compare_actions_with_log(checksum, newest.actions, in_commit_timestamp=time, is_commit_known=is_known):
        path = files.listing.checksums[files.latest].path
        yield wrong_checksum(files.latest, path, [each.field for each in found])


def checkpoint_faults(files: ExaminedFiles, loadable: VersionRanges, broken: Collection[int]) -> Iterator[Fault]:
    """Yield the faults of damaged checkpoints.

    loadable: the versions that can be loaded without them. broken: those of commits that cannot be read.
    """
    for provider, error in files.broken.items():
        if isinstance(error, CorruptLogError):
            yield _checkpoint_fault(files, provider.version, error.path, error.reason, loadable)
    for provider, doubt in files.doubted.items():
        yield doubted_checkpoint(provider.version, doubt.path, doubt.reason, files.is_replaceable(provider, broken))
    sound = -1 if files.checkpoint is None else files.checkpoint.version
    for unusable in files.listing.unusable_checkpoints:
        if unusable.version > sound:
            yield _checkpoint_fault(files, unusable.version, unusable.files[0].path, unusable.reason, loadable)


def protocol_faults(table: str, states: Iterable[ExaminedState]) -> Iterator[Fault]:
    """Yield the faults of versions that have all files but are not readable, by protocol or missing action."""
    for last, run in groupby(states, key=lambda state: state.last):
        problem: Fault | UnsupportedProtocolError | None = None
        since, checked = last, None
        for state in run:
            if state.actions is checked:
                continue
            checked = state.actions
            found = _problem_of(table, state.actions, state.version)
            if _same(found, problem):
                continue
            if problem is not None:
                yield _fault_of(problem, VersionRanges(((since, state.version - 1),)))
            problem, since = found, state.version
        if problem is not None:
            yield _fault_of(problem, VersionRanges(((since, last),)))


def timestamp_faults(
    listing: LogListing,
    commits: CommitFindings,
    states: Sequence[ExaminedState],
    sound: VersionRanges,
    newest_sound: SoundVersion | None,
    now_ms: int,
) -> Iterator[Fault]:
    """Yield the faults of timestamps: in-commit ones that are required and missing, or decrease; any in the future.

    Without in-commit timestamps, those of the files count. sound, newest_sound: as for `examine_log`.
    Source: PROTOCOL.md, In-Commit Timestamps.
    """
    errors: dict[int, CorruptLogError] = {}
    times: dict[int, int] = {}
    if newest_sound is not None and newest_sound.has_own_time:
        times[newest_sound.version] = newest_sound.timestamp
    for state in states:
        if state.version in commits.infos and in_commit_timestamps_enabled(state.actions.configuration):
            try:
                commit, info = listing.commits[state.version], commits.infos[state.version]
                times[state.version] = in_commit_timestamp(commit, info)
            except CorruptLogError as error:
                errors[state.version] = error
    for first, last in VersionRanges.of([*errors]).runs:
        found = errors[first]
        yield corrupt_commit(first, found.path, found.line, found.reason, VersionRanges(((first, last),)))
    runs = [range(first, last + 1) for first, last in VersionRanges.of(sorted(times)).runs]
    if found_at := [version for run in runs for version in decreasing({each: times[each] for each in run})]:
        yield decreasing_timestamps(redacted(table_path(listing.log_path)), VersionRanges.of(found_at))
    newest = states[-1].actions if states else SOUND
    is_known = newest.metadata is not None and newest.metadata is not SOUND.metadata
    if is_known and not in_commit_timestamps_enabled(newest.configuration):
        times |= {v: commit.modification_time for v, commit in listing.commits.items()}
    late = (version for version, time in times.items() if time > now_ms + _DAY_MS and version not in sound)
    if future := VersionRanges.of(sorted(late)):
        yield future_timestamps(redacted(table_path(listing.log_path)), future)


def unpublished_commit_faults(builder: LogSegmentBuilder, latest: int, newest: NonFileActions) -> Iterator[Fault]:
    """Yield the fault of staged commits after the latest version. Only the catalog knows which of them it ratified.

    Source: PROTOCOL.md, Catalog-managed tables.
    """
    if not is_catalog_managed(newest.protocol):
        return
    folder = join_url(builder.log_path, STAGED_COMMIT_FOLDER)
    versions = set[int]()
    with suppress(FileNotFoundError):
        for file in builder.store.list_from(join_url(folder, listing_prefix(latest + 1))):
            parsed = ParsedLogPath.parse(file.name)
            if parsed is not None and parsed.kind is LogFileKind.STAGED_COMMIT:
                versions.add(parsed.version)
    if versions:
        yield unpublished_commits(table_path(builder.log_path), VersionRanges.of(sorted(versions)), latest)


def enablement_faults(table: str, newest: NonFileActions) -> Iterator[Fault]:
    """Yield the fault of properties that state only the version, or only the time, that enabled commit timestamps."""
    version, timestamp = in_commit_timestamp_enablement(newest.configuration)
    if in_commit_timestamps_enabled(newest.configuration) and (version is None) != (timestamp is None):
        yield incomplete_enablement(redacted(table))


def _checkpoint_fault(files: ExaminedFiles, version: int, path: str, reason: str, loadable: VersionRanges) -> Fault:
    end = min((known for known in files.states if known > version), default=files.latest + 1) - 1
    if min(version, files.latest) not in loadable:
        lost = VersionRanges.of(v for v in range(version, max(version, end) + 1) if v not in loadable)
        return corrupt_checkpoint(version, path, reason, None, lost)
    start = max((known for known in files.states if known <= version), default=None)
    count = sum(1 for commit in files.listing.commits if (-1 if start is None else start) < commit <= end)
    commits = "1 commit" if count == 1 else f"{count:,} commits"
    if start is None:
        return corrupt_checkpoint(version, path, reason, f"the {commits} from version 0 on", VersionRanges())
    instead = f"{'another' if start == version else 'the'} checkpoint of version {start}"
    instead += f" and the {commits} after it" if count else ""
    return corrupt_checkpoint(version, path, reason, instead, VersionRanges())


def _problem_of(table: str, state: NonFileActions, version: int) -> Fault | UnsupportedProtocolError | None:
    for action, found in (("protocol", state.protocol), ("metadata", state.metadata)):
        if found is None:
            return _no_action(table, action, version)
    try:
        assert state.protocol is not None
        check_readable(state.protocol, path=table, version=version)
    except UnsupportedProtocolError as error:
        return error
    return None


def _same(one: Fault | UnsupportedProtocolError | None, other: Fault | UnsupportedProtocolError | None) -> bool:
    if isinstance(one, UnsupportedProtocolError) and isinstance(other, UnsupportedProtocolError):
        return _needs(one) == _needs(other)
    return type(one) is type(other)


def _fault_of(problem: Fault | UnsupportedProtocolError, versions: VersionRanges) -> Fault:
    if isinstance(problem, UnsupportedProtocolError):
        return _unsupported(problem, versions)
    return Fault(kind=problem.kind, text=problem.text, advice=problem.advice, reason=problem.reason, versions=versions)


def _unsupported(error: UnsupportedProtocolError, versions: VersionRanges) -> Fault:
    advice = (
        "Upgrade to a release of deltasnap that supports the feature, or drop the feature (`ALTER TABLE ... "
        "DROP FEATURE`) for readers that do not support it."
    )
    if error.invalid is not None:
        advice = "Check the writer, and restore the commit or checkpoint with the protocol from a backup of the log."
    return Fault(
        kind=FaultKind.UNSUPPORTED_PROTOCOL, text=str(error), advice=advice, reason=_needs(error), versions=versions
    )


def _needs(error: UnsupportedProtocolError) -> str:
    return error.invalid or ", ".join(error.features) or f"reader version {error.min_reader_version}"


def _no_action(table: str, action: str, version: int) -> Fault:
    reason = f"no {action} action up to version {version}"
    return Fault(
        kind=FaultKind.MISSING_ACTION,
        text=f"The log of {redacted(table)} has {reason}: the version cannot be read.",
        advice="Restore the first commit, or the checkpoint, from a backup of the log.",
        reason=reason,
    )
