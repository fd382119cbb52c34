"""InitialSnapshot: the snapshot of a table that does not exist yet."""

from __future__ import annotations

from deltasnap_core.log.listing.checkpoint_provider import EmptyCheckpointProvider
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.snapshot.snapshot import Snapshot
from deltasnap_core.snapshot.table_context import TableContext


class InitialSnapshot(Snapshot):
    """Version -1 of a table: no files, no transactions, no domains, timestamp -1.

    It has no protocol and no metadata. Members that need them raise DeltaTableNotFoundError.
    """

    def __init__(self, context: TableContext, *, now_ms: int) -> None:
        segment = LogSegment(
            log_path=context.table_log.log_path,
            version=-1,
            deltas=(),
            checkpoint_provider=EmptyCheckpointProvider(),
            last_commit_timestamp=-1,
        )
        log = VersionLog(loader=context.table_log.loader, segment=segment, now_ms=now_ms, validate_state=False)
        super().__init__(context, log)
