"""ApplyStep: commits to apply to a stored version, and the result of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.store.format.manifest import DataSet, VersionManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyStep:
    """The versions after a stored one.

    previous:   the stored version. batch: the commits after it.
    merged:     the latest sets of changes of `previous`, which are written again with the new changes.
    folder:     the new folder for the changes, below the generation's folder.
    non_file:   by new version, the non-file actions in force.
    retentions: by version, ascending, including that of `previous`; none keeps more than the previous one.
    """

    previous: VersionManifest
    batch: CommitBatch
    merged: tuple[DataSet, ...]
    folder: str
    non_file: Mapping[int, NonFileActions]
    retentions: Mapping[int, Retention]

    @property
    def first(self) -> int:
        """The first version whose changes are written."""
        return self.merged[0].first if self.merged else self.previous.version + 1

    @property
    def last(self) -> int:
        """The last new version."""
        return max(self.non_file)

    @property
    def rows_to_write(self) -> int:
        """The approximate number of changes to write."""
        return self.batch.num_file_actions + sum(data_set.rows for data_set in self.merged)

    @property
    def rows_to_read(self) -> int:
        """The number of stored rows of the previous state, plus the number of new actions."""
        return self.previous.rows + self.batch.num_file_actions


ApplyResult = tuple[DataSet, Mapping[int, StateDelta]]
"""The result of a step: the written set of changes, and the StateDelta of each version."""
