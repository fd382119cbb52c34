"""The computed state of a version, as the starting point for the versions after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.engine import Answer
from deltasnap_core.replay.state_delta import StateDelta


class KnownFiles(Protocol):
    """The files of a version, kept to look up those that later commits touch."""

    @property
    def version(self) -> int:
        """The version that they are of."""
        ...

    def delta(self, known: KnownState, log: LoadedLog, retention: Retention) -> Answer[StateDelta] | None:
        """Return what the commits after a known state change; None: nothing was kept.

        log: goes on from `known.log`. All its commits since then count as one change. Errors: MissingSizeError.
        """
        ...

    def release(self) -> None:
        """Free what is kept. The files can still be read from the log."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownState:
    """A version whose state was computed. retention: the tombstones that the state counts.

    computed_by: as Answer has it.
    """

    log: LoadedLog
    state: SnapshotState
    retention: Retention
    files: KnownFiles
    computed_by: str

    def can_advance_to(self, log: LoadedLog, retention: Retention) -> bool:
        """Whether `files.delta` applies: the log goes on from here, and no expired tombstone comes back.

        And it pays: the files are not too many commits old.
        """
        return (
            self.log.contents is log.contents
            and log.segment.continues(self.log.segment)
            and self.log.version < log.version
            and retention.is_within(self.retention)
            and not log.batch.after(self.files.version).is_large
        )
