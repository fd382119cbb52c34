"""Finds the loadable versions of an examined log, the reasons for the others, and the known state of each version."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltasnap_core.errors import CorruptLogError, DeltaSnapError
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.ranges import VersionRanges

# A version known to be sound has both a protocol and metadata, and deltasnap supports the protocol.
SOUND = NonFileActions(protocol=Protocol(min_reader_version=1, min_writer_version=1), metadata=Metadata(id=""))


@dataclass(slots=True, kw_only=True)
class Unloadable:
    """The reason why versions from `start` on cannot be loaded.

    error: of a file; None: the commits `missing` are missing.
    is_replaced: whether a checkpoint of the version `start` replaces the commit, so that every version can be loaded.
    """

    start: int
    end: int | None = None
    error: DeltaSnapError | None = None
    missing: tuple[int, int] | None = None
    is_replaced: bool = False

    @property
    def versions(self) -> VersionRanges:
        if self.is_replaced:
            return VersionRanges()
        return VersionRanges(((self.start, self.start if self.end is None else self.end),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedState:
    """The non-file actions at a version. last: the last version of its run of readable versions."""

    version: int
    actions: NonFileActions
    last: int


def loadable_versions(
    files: ExaminedFiles, broken: Mapping[int, DeltaSnapError], first: int
) -> tuple[list[int], list[Unloadable]]:
    """Return the loadable versions, ascending, and why the others are not loadable.

    first: the first version to check. A later checkpoint is read if a run of versions begins with it.
    """
    starts = {p.version for p in files.listing.checkpoints if p not in files.broken}
    commits, loadable = files.listing.commits, list[int]()
    first_commit = min(commits, default=files.latest)
    ended, open_ends = list[Unloadable](), list[Unloadable]()
    previous = -1
    for version in sorted({*commits, *(p.version for p in files.listing.checkpoints)}):
        needs_start = open_ends or version > previous + 1 or version not in commits or version in broken
        if version in starts and needs_start and version >= first and not files.is_start(version):
            starts.remove(version)
        if version > previous + 1 and (version not in starts or loadable):
            open_ends.append(Unloadable(start=previous + 1, missing=(previous + 1, version - 1)))
        if version in starts:
            for each in open_ends:
                each.end = version - 1
            # Commits before the first one were cleaned up: this is no fault, even if an old checkpoint was left.
            ended += [each for each in open_ends if each.error or (loadable and each.start > first_commit)]
            open_ends = []
        elif version not in commits and not open_ends:
            open_ends.append(Unloadable(start=version, missing=(version, version)))
        elif version in broken:
            open_ends.append(Unloadable(start=version, error=broken[version]))
        if (refused := files.refused(version)) is not None:
            open_ends.append(Unloadable(start=version, error=refused))
        if not open_ends:
            loadable.append(version)
        previous = version
    for each in open_ends:
        each.end = files.latest
    if files.broken and not loadable:  # the cleanup assumed that the checkpoint is sound
        open_ends = [each for each in open_ends if each.missing is None or each.start > 0]
    return loadable, [*ended, *open_ends]


def replaced_commits(
    files: ExaminedFiles, broken: Mapping[int, DeltaSnapError], loadable: Sequence[int]
) -> Iterator[Unloadable]:
    """Yield the commits of loadable versions that are damaged, or missing after an existing one."""
    commits = files.listing.commits
    for version in loadable:
        if isinstance(broken.get(version), CorruptLogError):
            yield Unloadable(start=version, error=broken[version], is_replaced=True)
        elif version not in commits and version - 1 in commits:
            yield Unloadable(start=version, missing=(version, version), is_replaced=True)


def known_states(files: ExaminedFiles, commits: CommitFindings, readable: VersionRanges) -> Iterator[ExaminedState]:
    """Yield the states of readable versions, ascending: at known checkpoints and at commits with non-file actions.

    A run of versions begins at a checkpoint, at version 0, or after versions that are known to be sound. Of these, only
    the state of `newest_sound` is known.
    """
    sound, newest_sound = commits.sound, commits.newest_sound
    known = sorted({*files.states, *commits.actions, *(last for _, last in sound.runs)})
    for first, last in readable.runs:
        state = NonFileActions() if first == 0 else None
        for version in known[bisect_left(known, first) : bisect_right(known, last)]:
            if version in sound:
                state = SOUND
                if newest_sound is not None and version == newest_sound.version:
                    state = NonFileActions(protocol=newest_sound.protocol, metadata=newest_sound.metadata)
            elif state is not None and version in commits.actions:
                state = state.advanced(commits.actions[version])
            lacks_action = state is None or state.protocol is None or state.metadata is None
            if version in files.states or (lacks_action and files.is_start(version)):
                state = files.states[version]
            if state is None or state is SOUND:
                continue
            yield ExaminedState(version=version, actions=state, last=last)
