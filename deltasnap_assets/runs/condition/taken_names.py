"""Detects that the store has another table under the name of a table: its versions are not replaced."""

from __future__ import annotations

from contextlib import suppress

from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError, SnapshotStore
from deltasnap_core.support import LastPoll, redacted


def check_name(store: SnapshotStore, table: TableSettings, recorded: LastPoll | None) -> None:
    """Raise an error if the store has another table under the name of this one, see `other_path`."""
    if (path := other_path(store, table, recorded)) is not None:
        raise DeltaSnapError(
            f"The store has another table named {table.name}, at {path}. This one is at {redacted(table.place)}. Give "
            "one of the two tables another name or another store. If nothing follows the other one, delete the folder "
            f"{table.name} from the store."
        )


def other_path(store: SnapshotStore, table: TableSettings, recorded: LastPoll | None) -> str | None:
    """Return the path for which the store was last written if it has another log than this table; None: it has not.

    A log that continues the stored versions is the same one: the table has moved. A log that cannot be listed is no
    other one. recorded: of the name of the table.
    """
    with suppress(DeltaSnapError):  # of the log or the store: reported where they are needed
        if recorded is not None and recorded.is_elsewhere(table.place):
            log = log_of(table)
            return None if store.common_version(table.name, log, log.list()).is_continued else recorded.path
    return None
