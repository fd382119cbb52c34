"""Writes `_last_checkpoint`, the hint to the newest checkpoint."""

from __future__ import annotations

from deltasnap_core.errors import StorageError
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, CheckpointKind
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.urls import is_local, join_url, split_url
from deltasnap_core.storage.writable_files import WritableFiles

_log = logger_of(__name__)


def hint_of(checkpoint: CheckpointProvider, num_actions: int | None) -> LastCheckpointInfo:
    """Return the hint to a checkpoint. num_actions: in it, with those of its sidecars; None: unknown."""
    top, is_v2 = checkpoint.files[0], checkpoint.kind is CheckpointKind.UUID
    v2 = {"path": top.name, "sizeInBytes": top.size, "modificationTime": top.modification_time}
    return LastCheckpointInfo(
        version=checkpoint.version,
        size=num_actions,
        parts=len(checkpoint.files) if checkpoint.kind is CheckpointKind.MULTIPART else None,
        v2_checkpoint=v2 if is_v2 else None,
    )


def write_hint(storage: WritableFiles, log: TableLog, hint: LastCheckpointInfo) -> bool:
    """Write `_last_checkpoint` for a new checkpoint unless the log has a later one. Return whether it did.

    Any other hint is replaced: to an earlier version, to a later one without a checkpoint, as after a rollback, and to
    this version, because that one is about a checkpoint that was deleted. If the storage fails, this only logs a
    warning: the checkpoint is in place, and readers find it by listing.
    Source: PROTOCOL.md, Last Checkpoint File.
    """
    path = join_url(log.log_path, LAST_CHECKPOINT)
    try:
        if any(checkpoint.version > hint.version for checkpoint in log.list(hint.version).checkpoints):
            return False
        drop_side_file(storage, path)
        storage.write(path, hint.serialized())
    except StorageError as error:
        _log.warning("The checkpoint of version %d is in place, but not its hint: %s", hint.version, error)
        return False
    _log.info("Wrote %s for version %d", redacted(path), hint.version)
    return True


def drop_side_file(storage: WritableFiles, path: str) -> None:
    """Delete the checksum file that Hadoop keeps beside a local file, before that file is written or replaced.

    With a stale one, Hadoop refuses to read the new file.
    """
    if is_local(path):
        folder, name = split_url(path)
        storage.delete([join_url(folder, f".{name}.crc")])
