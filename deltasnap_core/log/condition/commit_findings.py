"""CommitFindings: what is known of commits, most of it found by reading them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from deltasnap_core.errors import DeltaSnapError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.log.non_file_actions import non_file_actions_by_version
from deltasnap_core.protocol.actions import CommitInfo, Metadata, Protocol
from deltasnap_core.protocol.properties.table_config import in_commit_timestamps_enabled
from deltasnap_core.protocol.table_features import properties_in_force
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SoundVersion:
    """A version whose commit is known to be sound, and need not be read. timestamp: of the commit, in ms."""

    version: int
    protocol: Protocol | None
    metadata: Metadata | None
    timestamp: int

    @property
    def has_own_time(self) -> bool:
        """Whether the timestamp is an in-commit timestamp."""
        return in_commit_timestamps_enabled(properties_in_force(self.protocol, self.metadata))


@safe_repr
@dataclass(slots=True, kw_only=True)
class CommitFindings:
    """What is known of the commits of a log.

    sound:    the versions whose commits are known to be sound without reading them, for example because they are
              stored. A version says nothing about the commits before it if a checkpoint replaces them.
    newest_sound: the newest of them; None: unknown. Then the times and the schema of later commits are not checked.
    versions: those of the commits that were read.
    broken:   by version, the reason why a commit is not usable.
    actions:  by version, the non-file actions.
    infos:    by version, the commitInfo; None: the commit has none.
    marked:   by kind of problem, the versions whose commits have it.
    """

    sound: VersionRanges = field(default_factory=VersionRanges)
    newest_sound: SoundVersion | None = None
    versions: set[int] = field(default_factory=set)
    broken: dict[int, DeltaSnapError] = field(default_factory=dict)
    actions: dict[int, list[object]] = field(default_factory=dict)
    infos: dict[int, CommitInfo | None] = field(default_factory=dict)
    marked: dict[ProblemKind, set[int]] = field(default_factory=dict)

    def add(self, batch: CommitBatch) -> None:
        """Add sound commits. Errors: CorruptLogError; nothing is added then."""
        versions = [commit.version for commit in batch.commits]
        actions, infos = non_file_actions_by_version(batch), batch.commit_infos()
        self.versions.update(versions)
        self.infos |= infos
        self.actions |= {version: actions.get(version, []) for version in versions}
        self._mark(ProblemKind.NEGATIVE_NUMBER, batch.versions_with_negative_numbers)
        self._mark(ProblemKind.CONTRADICTORY_COMMIT, batch.contradictory_versions)
        self._mark(ProblemKind.REPEATED_ADD, batch.repeating_versions("add"))
        self._mark(ProblemKind.REPEATED_REMOVE, batch.repeating_versions("remove"))
        self._mark(ProblemKind.EMPTY_COMMIT, batch.blank_versions)

    def merge(self, other: CommitFindings, versions: Container[int]) -> None:
        """Add what another reader found in the commits of some versions. other: has no broken commits."""
        self.versions |= {version for version in other.versions if version in versions}
        self.infos |= {version: info for version, info in other.infos.items() if version in versions}
        self.actions |= {version: each for version, each in other.actions.items() if version in versions}
        for kind, marked in other.marked.items():
            self._mark(kind, (version for version in marked if version in versions))

    def versions_with(self, kind: ProblemKind) -> set[int]:
        """Return the versions whose commits have a kind of problem."""
        return self.marked.get(kind, set())

    def _mark(self, kind: ProblemKind, versions: Iterable[int]) -> None:
        self.marked.setdefault(kind, set()).update(versions)
