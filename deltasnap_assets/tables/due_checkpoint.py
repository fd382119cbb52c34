"""Writes a checkpoint into the log of a table: on request, or after a refresh if its settings say that one is due."""

from __future__ import annotations

from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import without_secrets
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import LogListing


def is_due(listing: LogListing, newest: int, after_commits: int) -> bool:
    """Return whether to write a checkpoint of a version.

    newest: the newest version of the run; only the latest version of the log gets a checkpoint.
    after_commits: the number of commits after the newest checkpoint, or from version 0, from which one is due.
    """
    if listing.latest_version != newest:
        return False
    before = listing.checkpoints[0].version if listing.checkpoints else -1
    return newest - before >= after_commits


def write_due_checkpoint(snapshots: RunSnapshots, table: TableSettings, newest: int) -> tuple[str, bool] | None:
    """Write a checkpoint of the newest version if one is due. Return a message and whether it succeeded; None: not due.

    A failure does not fail the run: the versions are stored, and the check `checkpoint_lag` shows how far the
    checkpoint is behind.
    """
    after = table.checkpoint.after_commits
    if after is None or not is_due(snapshots.listing(table), newest, after):
        return None
    try:
        message = write_checkpoint(snapshots, table, newest)
    except DeltaSnapError as error:
        return f"No checkpoint was written: {without_secrets(str(error))}", False
    snapshots.list_again(table)
    return message, True


def write_checkpoint(snapshots: RunSnapshots, table: TableSettings, version: int | None = None) -> str:
    """Write a checkpoint of a version, by default the latest. Return a message. Errors: those of DeltaLog.checkpoint.

    A version that already has a checkpoint keeps it.
    """
    written = snapshots.log(table).checkpoint(version)
    name = written.files[0].name
    if not written.is_new:
        return f"Version {written.version} already has a checkpoint: {name}"
    return f"Wrote the checkpoint {name}: {written.size_in_bytes:,} bytes"
