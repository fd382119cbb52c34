"""Creates a snapshot from the log of its version. The snapshot reuses the data of the previous one."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.errors import DeltaSnapError
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.snapshot.snapshot import Snapshot
from deltasnap_core.snapshot.table_context import TableContext

_log = logger_of(__name__)

_STARTING_FROM = " starting from checkpoint %d"


def load_snapshot(
    context: TableContext,
    log: VersionLog,
    *,
    predecessor: Snapshot | None = None,
    min_file_retention_timestamp: int | None = None,
    is_current: bool = False,
) -> Snapshot:
    """Return the snapshot of a version; nothing is read yet. Delta's `createSnapshot`.

    log:         of the version, from `TableLog.version_log`.
    predecessor: a snapshot of any version of the same table, whose data is reused.
    min_file_retention_timestamp: see Snapshot.
    is_current:  whether it is the current snapshot, the only one whose state Spark may cache.
    """
    provider = log.segment.checkpoint_provider
    start = "" if provider.is_empty else _STARTING_FROM % provider.version
    _log.info("Loading version %d%s.", log.version, start)
    return Snapshot(
        context,
        replace(
            log,
            known=None if predecessor is None else predecessor.log.best_known,
            validate_state=context.options.validate_state is not False,
        ),
        min_file_retention_timestamp=min_file_retention_timestamp,
        known_state=None if predecessor is None else predecessor.known_state,
        keep_state=is_current and context.options.cache_state,
    )


def warn_of_replaced_log(old: Snapshot, new: Snapshot) -> None:
    """Log a warning if the new log does not continue the old one: recreated, restored, rewritten or cut off."""
    before, after = old.log_segment, new.log_segment
    path = redacted(before.log_path)
    known = {file.path: file for file in before.deltas}
    changed = [file.name for file in after.deltas if known.get(file.path, file) != file]
    if after.version < before.version:
        _log.warning("The log at %s went back from version %d to %d.", path, before.version, after.version)
    elif changed:
        _log.warning("The log at %s was replaced: %s has changed.", path, changed[0])
    elif after.version == before.version and not after.continues(before):
        _log.info("The log at %s has another checkpoint for version %d.", path, after.version)
    _warn_of_other_table_id(old, new)


def _warn_of_other_table_id(old: Snapshot, new: Snapshot) -> None:
    if old.version < 0 or new.version < 0 or not old.log.is_loaded:
        return
    try:
        before, after = old.metadata.id, new.metadata.id
    except DeltaSnapError as error:
        _log.debug("The id of the table is not known: %s", error)
        return
    if before != after:
        _log.warning(
            "Change in the table id detected while updating snapshot: %s in %s, %s in %s.", before, old, after, new
        )
