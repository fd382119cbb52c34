"""CommitFindings: the facts found by reading commits."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from deltasnap_core.errors import DeltaSnapError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.non_file_actions import non_file_actions_by_version
from deltasnap_core.protocol.actions import CommitInfo
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(slots=True)
class CommitFindings:
    """The facts found by reading commits.

    versions: those of the commits that were read.
    broken:   by version, the reason why a commit is not usable.
    actions:  by version, the non-file actions.
    infos:    by version, the commitInfo; None: the commit has none.
    negative: the versions with a negative size or number of rows.
    contradictory: the versions whose commits add and remove one file.
    repeating: the versions whose commits add one file several times.
    removing_again: the versions whose commits remove one file several times.
    blank:    the versions whose commits have no line, or only blank ones.
    """

    versions: set[int] = field(default_factory=set)
    broken: dict[int, DeltaSnapError] = field(default_factory=dict)
    actions: dict[int, list[object]] = field(default_factory=dict)
    infos: dict[int, CommitInfo | None] = field(default_factory=dict)
    negative: set[int] = field(default_factory=set)
    contradictory: set[int] = field(default_factory=set)
    repeating: set[int] = field(default_factory=set)
    removing_again: set[int] = field(default_factory=set)
    blank: set[int] = field(default_factory=set)

    def add(self, batch: CommitBatch) -> None:
        """Add sound commits. Errors: CorruptLogError; nothing is added then."""
        versions = [commit.version for commit in batch.commits]
        actions, infos = non_file_actions_by_version(batch), batch.commit_infos()
        self.versions.update(versions)
        self.infos |= infos
        self.actions |= {version: actions.get(version, []) for version in versions}
        self.negative |= batch.versions_with_negative_numbers
        self.contradictory |= batch.contradictory_versions
        self.repeating |= batch.repeating_versions("add")
        self.removing_again |= batch.repeating_versions("remove")
        self.blank |= batch.blank_versions

    def merge(self, other: CommitFindings, versions: Container[int]) -> None:
        """Add the findings of another reader about some versions. other: has no broken commits."""
        self.versions |= {version for version in other.versions if version in versions}
        self.infos |= {version: info for version, info in other.infos.items() if version in versions}
        self.actions |= {version: each for version, each in other.actions.items() if version in versions}
        self.negative |= {version for version in other.negative if version in versions}
        self.contradictory |= {version for version in other.contradictory if version in versions}
        self.repeating |= {version for version in other.repeating if version in versions}
        self.removing_again |= {version for version in other.removing_again if version in versions}
        self.blank |= {version for version in other.blank if version in versions}
