"""The computed state of a version, as the starting point for later versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.replay.engine import Answer
from deltasnap_core.replay.state_delta import StateDelta


class KnownFiles(Protocol):
    """The files of a version, kept to look up the files that later commits change."""

    @property
    def version(self) -> int:
        """The version of the files."""
        ...

    def delta(self, known: KnownState, log: LoadedLog, retention: Retention) -> Answer[StateDelta] | None:
        """Return the changes of the commits after a known state; None: no files are kept.

        log: continues `known.log`. The result combines the changes of all its newer commits.
        Errors: MissingSizeError.
        """
        ...

    def release(self) -> None:
        """Free the kept files. They can still be read from the log."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownState:
    """A version with its computed state.

    retention:   the tombstones that the state counts.
    files:       of the last version whose files were counted: this one, or an earlier one to which changes were added.
    computed_by: as in Answer.
    """

    log: LoadedLog
    state: SnapshotState
    retention: Retention
    files: KnownFiles
    computed_by: str

    def can_advance_to(self, log: LoadedLog, retention: Retention) -> bool:
        """Return whether `files.delta` can be applied and is cheaper than counting again.

        The log must continue this one, and no expired tombstone may come back. The commits since the version of `files`
        must be small.
        """
        return (
            self.log.checkpoint is log.checkpoint
            and log.segment.continues(self.log.segment)
            and self.log.version < log.version
            and retention.is_within(self.retention)
            and not log.batch.after(self.files.version).is_large
        )
