"""SnapshotCounts: the computed state of one version, and the numbers that need no replay if a checksum has them."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.once import once
from deltasnap_core.replay.known_state import KnownState
from deltasnap_core.snapshot.snapshot_frames import SnapshotFrames
from deltasnap_core.snapshot.state_replay import StateReplay


class SnapshotCounts:
    """The computed state of one version, computed once. See `Snapshot` for the members."""

    def __init__(
        self, log: VersionLog, frames: SnapshotFrames, replay: StateReplay, known_state: KnownState | None
    ) -> None:
        """known_state: that of an earlier version, used if the log continues that version; None: unknown."""
        self._log = log
        self._frames = frames
        self._replay = replay
        self._known_state = known_state

    @once
    def computed(self) -> KnownState:
        """The computed state, with the engine that computed it."""
        self._known_state = computed = self._frames.run(self._compute)
        return computed

    @property
    def known_state(self) -> KnownState | None:
        """The computed state; if not computed yet, that of an earlier version; None: neither is known."""
        return self._known_state

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the live files."""
        hint = self._log.hint
        return self.computed.state.size_in_bytes if hint is None else hint.table_size_bytes

    @property
    def num_of_files(self) -> int:
        """The number of live files."""
        hint = self._log.hint
        return self.computed.state.num_of_files if hint is None else hint.num_files

    @property
    def totals(self) -> tuple[int, int] | None:
        """The number of live files and their bytes; None: unknown without a replay."""
        is_known = self._log.hint is not None or SnapshotCounts.computed.is_computed(self)
        return (self.num_of_files, self.size_in_bytes) if is_known else None

    def release(self, needed: KnownState | None) -> None:
        """Release the counted files and keep none from now on, except those that a successor needs (None: none)."""
        self._replay.close()
        known = self._known_state
        if known is not None and (needed is None or needed.files is not known.files):
            known.files.release()

    def _compute(self, replayable: LoadedLog) -> KnownState:
        log = replace(replayable, non_file=self._log.non_file)
        return self._replay.compute(log, self._frames.retention, self._known_state)
