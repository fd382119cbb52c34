"""Examines a log: reads the newest checkpoint and the commits after it, and finds which versions can be loaded."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from deltasnap_core.errors import (
    CorruptLogError,
    DeltaSnapError,
    DeltaTableNotFoundError,
    StorageError,
    UnsupportedProtocolError,
)
from deltasnap_core.log.checkpoints.checkpoint_contents import open_checkpoint
from deltasnap_core.log.checkpoints.checkpoint_pages import read_every_page
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.condition.access_faults import no_table, storage_fault
from deltasnap_core.log.condition.hint_faults import hint_faults
from deltasnap_core.log.condition.table_condition import (
    Fault,
    FaultKind,
    TableCondition,
    ambiguous_commits,
    corrupt_checkpoint,
    corrupt_commit,
    empty_commits,
    joined,
    missing_commits,
)
from deltasnap_core.log.history.commit_timestamps import in_commit_timestamp
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import (
    NonFileActions,
    load_non_file_actions,
    non_file_actions_by_version,
)
from deltasnap_core.log.protocol_checks import check_no_manifest_commits
from deltasnap_core.protocol.actions import CommitInfo, Metadata, Protocol
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.protocol.properties.table_config import in_commit_timestamps_enabled
from deltasnap_core.protocol.table_features import check_readable
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted
from deltasnap_core.storage.log_store import FileStatus, LogStore

_COMMITS_AT_ONCE = 64
# A version known to be sound has both a protocol and metadata, and deltasnap supports the protocol.
_SOUND = NonFileActions(protocol=Protocol(min_reader_version=1, min_writer_version=1), metadata=Metadata(id=""))


def examine_log(
    store: LogStore,
    builder: LogSegmentBuilder,
    *,
    listing: LogListing | None = None,
    first: int | None = None,
    sound_until: int = -1,
    read_pages: bool = True,
) -> TableCondition:
    """Return the condition of a table. Never raises DeltaSnapError: problems become faults.

    listing:     of the whole log; None: list it here.
    first:       the first version to check; None: the latest. Everything that it and the later versions need is read.
    sound_until: the commits up to this version are known to be sound and are not read.
    read_pages:  whether to read every page of the newest checkpoint; False: only its footers and non-file actions.
    """
    table = table_path(builder.log_path)
    try:
        listing = builder.list_versions(0) if listing is None else listing
        if listing.latest_version is None:
            raise DeltaTableNotFoundError(path=table)
        return _Examination(store, builder, listing, read_pages=read_pages).condition(first, sound_until)
    except DeltaTableNotFoundError:
        return TableCondition(table=redacted(table), faults=(no_table(store, table),))
    except StorageError as error:
        return TableCondition(table=redacted(table), faults=(storage_fault(error),))


@dataclass(slots=True, kw_only=True)
class _Blame:
    """The reason why versions from `start` on cannot be loaded.

    error: of a file; None: the commits `missing` are missing.
    """

    start: int
    end: int | None = None
    error: DeltaSnapError | None = None
    missing: tuple[int, int] | None = None

    @property
    def versions(self) -> VersionRanges:
        return VersionRanges(((self.start, self.start if self.end is None else self.end),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownState:
    """The non-file actions at a version. last: the last version of its run of readable versions."""

    version: int
    actions: NonFileActions
    last: int


@dataclass(slots=True)
class _Commits:
    """The commits that were read. broken: by version, the reason why a commit is not usable."""

    read: list[int] = field(default_factory=list)
    broken: dict[int, DeltaSnapError] = field(default_factory=dict)
    actions: dict[int, list[object]] = field(default_factory=dict)
    infos: dict[int, CommitInfo | None] = field(default_factory=dict)

    def add(self, actions: Mapping[int, list[object]], infos: Mapping[int, CommitInfo | None]) -> None:
        """Add sound commits."""
        self.actions |= actions
        self.infos |= infos


class _Examination:
    def __init__(self, store: LogStore, builder: LogSegmentBuilder, listing: LogListing, *, read_pages: bool) -> None:
        assert listing.latest_version is not None
        self._store = store
        self._builder = builder
        self._listing = listing
        self._table = table_path(builder.log_path)
        self._latest = listing.latest_version
        self._read_pages = read_pages
        self._broken: dict[CheckpointProvider, DeltaSnapError] = {}
        self._sound: CheckpointProvider | None = None
        self._states: dict[int, NonFileActions] = {}  # of the sound checkpoints that were read
        self._names: list[str] = []

    def condition(self, first: int | None, sound_until: int) -> TableCondition:
        self._sound = self._newest_sound(self._latest)
        start = -1 if self._sound is None else self._sound.version
        first = start + 1 if first is None else first
        if sound_until + 1 < first <= start:
            before = self._newest_sound(first)
            first = 0 if before is None else before.version + 1
        commits = self._read_commits(max(min(first, start + 1), sound_until + 1))
        loadable, blames = self._walk(commits.broken, first)
        readable = VersionRanges.of(loadable)
        states = [*self._known_states(commits, sound_until, readable)]
        unusable = [*self._protocol_faults(states), *self._timestamp_faults(commits, states)]
        ambiguous = self._ambiguous_commits(commits)
        lost = joined(fault.versions for fault in unusable)
        faults = [*self._commit_faults(blames), *unusable, *self._empty_commits(commits), *ambiguous]
        faults += [*self._checkpoint_faults(blames), *hint_faults(self._builder, self._listing)]
        faults.sort(key=lambda fault: fault.mark != "error")
        found = TableCondition(
            table=redacted(self._table),
            latest=self._latest,
            loadable=VersionRanges.of([v for v in loadable if v not in lost]),
            faults=tuple(faults),
            commits_read=VersionRanges.of(commits.read),
            checkpoints_read=tuple(self._names),
            pages_read=self._read_pages,
        )
        metadata = states[-1].actions.metadata if states else None
        return found.with_schema_of(None if metadata is _SOUND.metadata else metadata)

    def _newest_sound(self, version: int) -> CheckpointProvider | None:
        """Return the newest sound checkpoint up to a version. Reads checkpoints, newest first, until one is sound."""
        found = (each for each in self._listing.checkpoints if each.version <= version)
        return next((each for each in found if self._is_sound(each)), None)

    def _is_sound(self, provider: CheckpointProvider) -> bool:
        """Read a checkpoint, and return whether it is sound. Only of the newest one, every page is read."""
        if provider in self._broken or provider.version in self._states:
            return provider not in self._broken
        self._names += [file.name for file in provider.files]
        try:
            contents = open_checkpoint(self._store, provider, self._builder.log_path)
            state = load_non_file_actions(self._store, contents, EMPTY_BATCH)
            if self._read_pages and not self._states:
                read_every_page(self._store, contents)
        except (CorruptLogError, StorageError) as error:
            self._broken[provider] = error
            return False
        self._states[provider.version] = state
        return True

    def _known_states(self, commits: _Commits, sound_until: int, readable: VersionRanges) -> Iterator[_KnownState]:
        """Yield the states of readable versions, ascending: at known checkpoints and at commits with non-file actions.

        A run of versions begins at a checkpoint, at version 0, or after the versions that are known to be sound.
        """
        known = sorted({*self._states, *commits.actions})
        for first, last in readable.runs:
            state = _SOUND if first <= sound_until else NonFileActions() if first == 0 else None
            for version in known[bisect_left(known, max(first, sound_until)) : bisect_right(known, last)]:
                if version > sound_until and state is not None and version in commits.actions:
                    state = state.advanced(commits.actions[version])
                lacks_action = state is None or state.protocol is None or state.metadata is None
                if version in self._states or (lacks_action and self._is_start(version)):
                    state = self._states[version]
                if state is None or (version == sound_until and state is _SOUND):
                    continue
                yield _KnownState(version=version, actions=state, last=last)

    def _read_commits(self, first: int) -> _Commits:
        found = _Commits()
        wanted = self._listing.commits_between(first, self._latest)
        for place in range(0, len(wanted), _COMMITS_AT_ONCE):
            commits = wanted[place : place + _COMMITS_AT_ONCE]
            try:
                found.add(*_actions_of(self._store, commits, self._table))
            except (CorruptLogError, StorageError, UnsupportedProtocolError):
                self._read_one_by_one(commits, found)
            found.read += [commit_version(commit.path) for commit in commits]
        return found

    def _read_one_by_one(self, commits: Iterable[FileStatus], found: _Commits) -> None:
        for commit in commits:
            try:
                found.add(*_actions_of(self._store, [commit], self._table))
            except (CorruptLogError, StorageError, UnsupportedProtocolError) as error:
                found.broken[commit_version(commit.path)] = error

    def _walk(self, broken: Mapping[int, DeltaSnapError], first: int) -> tuple[list[int], list[_Blame]]:
        """Return the loadable versions, ascending, and why the others are not loadable.

        first: the first version to check. A later checkpoint is read if a run of versions begins with it.
        """
        starts = {p.version for p in self._listing.checkpoints if p not in self._broken}
        commits, loadable = self._listing.commits, list[int]()
        blames, blamed = list[_Blame](), list[_Blame]()
        previous = -1
        for version in sorted({*commits, *(p.version for p in self._listing.checkpoints)}):
            needs_start = blamed or version > previous + 1 or version not in commits or version in broken
            if version in starts and needs_start and version >= first and not self._is_start(version):
                starts.remove(version)
            if version > previous + 1 and (version not in starts or loadable):
                blamed.append(_Blame(start=previous + 1, missing=(previous + 1, version - 1)))
            if version in starts:
                for blame in blamed:
                    blame.end = version - 1
                # Versions before the first loadable version were cleaned up: this is no fault, unless a file is
                # damaged.
                blames += [blame for blame in blamed if loadable or blame.error is not None]
                blamed = []
            elif version not in commits and not blamed:
                blamed.append(_Blame(start=version, missing=(version, version)))
            elif version in broken:
                blamed.append(_Blame(start=version, error=broken[version]))
            if (refused := self._refused(version)) is not None:
                blamed.append(_Blame(start=version, error=refused))
            if not blamed:
                loadable.append(version)
            previous = version
        for blame in blamed:
            blame.end = self._latest
        if self._broken and not loadable:  # the cleanup assumed that the checkpoint is sound
            blamed = [blame for blame in blamed if blame.missing is None or blame.start > 0]
        return loadable, [*blames, *blamed]

    def _is_start(self, version: int) -> bool:
        """Return whether a version has a sound checkpoint."""
        return any(self._is_sound(each) for each in self._listing.checkpoints if each.version == version)

    def _refused(self, version: int) -> StorageError | None:
        """Return why a checkpoint could not be read. This is no damage: a load does not fall back to an older one."""
        found = (error for provider, error in self._broken.items() if provider.version == version)
        return next((error for error in found if isinstance(error, StorageError)), None)

    def _commit_faults(self, blames: Iterable[_Blame]) -> Iterator[Fault]:
        for blame in blames:
            match blame.error:
                case None if blame.missing is not None:
                    yield missing_commits(self._table, VersionRanges((blame.missing,)), blame.versions)
                case CorruptLogError(path=path, line=line, reason=reason):
                    yield corrupt_commit(blame.start, path, line, reason, blame.versions)
                case UnsupportedProtocolError() as error:
                    yield _unsupported(error, blame.versions)
                case StorageError() as error:
                    yield storage_fault(error, blame.versions)

    def _empty_commits(self, commits: _Commits) -> Iterator[Fault]:
        sizes = {v: commit.size for v, commit in self._listing.commits.items() if v not in commits.broken}
        if empty := VersionRanges.of([v for v, size in sizes.items() if size == 0]):
            yield empty_commits(self._table, empty)

    def _ambiguous_commits(self, commits: _Commits) -> Iterator[Fault]:
        for kind, action in ((Metadata, "metaData"), (Protocol, "protocol")):
            counts = {v: sum(isinstance(each, kind) for each in found) for v, found in commits.actions.items()}
            if versions := VersionRanges.of(sorted(v for v, count in counts.items() if count > 1)):
                yield ambiguous_commits(redacted(self._table), action, versions)

    def _checkpoint_faults(self, blames: Sequence[_Blame]) -> Iterator[Fault]:
        lost = joined(blame.versions for blame in blames)
        for provider, error in self._broken.items():
            if isinstance(error, CorruptLogError):
                yield self._checkpoint_fault(provider.version, error.path, error.reason, lost)
        sound = -1 if self._sound is None else self._sound.version
        for unusable in self._listing.unusable_checkpoints:
            if unusable.version > sound:
                yield self._checkpoint_fault(unusable.version, unusable.files[0].path, unusable.reason, lost)

    def _checkpoint_fault(self, version: int, path: str, reason: str, lost: VersionRanges) -> Fault:
        if version in lost or not self._has_start(version):
            end = min((known for known in self._states if known > version), default=self._latest + 1) - 1
            return corrupt_checkpoint(version, path, reason, None, VersionRanges(((version, max(version, end)),)))
        start = None if self._sound is None or self._sound.version > version else self._sound.version
        count = sum(1 for commit in self._listing.commits if commit > (-1 if start is None else start))
        commits = "1 commit" if count == 1 else f"{count:,} commits"
        instead = f"the {commits} from version 0 on" if start is None else f"the checkpoint of version {start}"
        instead += f" and the {commits} after it" if start is not None and count else ""
        return corrupt_checkpoint(version, path, reason, instead, VersionRanges())

    def _has_start(self, version: int) -> bool:
        """Return whether a replay of the version can start from an older sound checkpoint or from commit 0."""
        return 0 in self._listing.commits or (self._sound is not None and self._sound.version <= version)

    def _protocol_faults(self, states: Iterable[_KnownState]) -> Iterator[Fault]:
        """Yield the faults of versions that have all files but are not readable, by protocol or missing action."""
        for last, run in groupby(states, key=lambda state: state.last):
            problem: Fault | UnsupportedProtocolError | None = None
            since, checked = last, None
            for state in run:
                if state.actions is checked:
                    continue
                checked = state.actions
                found = self._problem_of(state.actions, state.version)
                if _same(found, problem):
                    continue
                if problem is not None:
                    yield _fault_of(problem, VersionRanges(((since, state.version - 1),)))
                problem, since = found, state.version
            if problem is not None:
                yield _fault_of(problem, VersionRanges(((since, last),)))

    def _timestamp_faults(self, commits: _Commits, states: Iterable[_KnownState]) -> Iterator[Fault]:
        """Yield the faults of commits without the in-commit timestamp that the properties in force require."""
        errors: dict[int, CorruptLogError] = {}
        for state in states:
            metadata = state.actions.metadata
            if state.version not in commits.infos or metadata is None:
                continue
            if in_commit_timestamps_enabled(metadata.configuration):
                try:
                    in_commit_timestamp(self._listing.commits[state.version], commits.infos[state.version])
                except CorruptLogError as error:
                    errors[state.version] = error
        for first, last in VersionRanges.of([*errors]).runs:
            found = errors[first]
            yield corrupt_commit(first, found.path, found.line, found.reason, VersionRanges(((first, last),)))

    def _problem_of(self, state: NonFileActions, version: int) -> Fault | UnsupportedProtocolError | None:
        for action, found in (("protocol", state.protocol), ("metadata", state.metadata)):
            if found is None:
                return _no_action(self._table, action, version)
        try:
            assert state.protocol is not None
            check_readable(state.protocol, path=self._table, version=version)
        except UnsupportedProtocolError as error:
            return error
        return None


def _actions_of(
    store: LogStore, commits: Sequence[FileStatus], table: str
) -> tuple[dict[int, list[object]], dict[int, CommitInfo | None]]:
    """Return the non-file actions and the commitInfo of commits by version.

    Errors: every error that prevents storing a version, except for a missing in-commit timestamp.
    """
    batch = read_commits(store, commits)
    check_no_manifest_commits(batch, table)
    infos = batch.commit_infos()
    found: dict[int, list[object]] = {commit_version(commit.path): [] for commit in commits}
    return found | non_file_actions_by_version(batch), infos


def _same(one: Fault | UnsupportedProtocolError | None, other: Fault | UnsupportedProtocolError | None) -> bool:
    if isinstance(one, UnsupportedProtocolError) and isinstance(other, UnsupportedProtocolError):
        return (one.features, one.min_reader_version) == (other.features, other.min_reader_version)
    return type(one) is type(other)


def _fault_of(problem: Fault | UnsupportedProtocolError, versions: VersionRanges) -> Fault:
    if isinstance(problem, UnsupportedProtocolError):
        return _unsupported(problem, versions)
    return Fault(kind=problem.kind, text=problem.text, advice=problem.advice, reason=problem.reason, versions=versions)


def _unsupported(error: UnsupportedProtocolError, versions: VersionRanges) -> Fault:
    return Fault(
        kind=FaultKind.UNSUPPORTED_PROTOCOL,
        text=str(error),
        advice="Upgrade to a release of deltasnap that supports the feature, or drop the feature (`ALTER TABLE ... "
        "DROP FEATURE`) for readers that do not support it.",
        reason=", ".join(error.features) or f"reader version {error.min_reader_version}",
        versions=versions,
    )


def _no_action(table: str, action: str, version: int) -> Fault:
    reason = f"no {action} action up to version {version}"
    return Fault(
        kind=FaultKind.MISSING_ACTION,
        text=f"The log of {redacted(table)} has {reason}: the version cannot be read.",
        advice="Restore the first commit, or the checkpoint, from a backup of the log.",
        reason=reason,
    )
