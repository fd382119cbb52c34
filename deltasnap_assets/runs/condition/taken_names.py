"""Detects that two projects with the same store follow different tables under one name.

Each would replace the versions of the other, and show its numbers.
"""

from __future__ import annotations

from contextlib import suppress

import dagster as dg

from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, redacted


class TakenNameError(DeltaSnapError):
    """The store was last written for another table with the same name, at `path`."""

    def __init__(self, *, table: str, path: str) -> None:
        self.table = table
        self.path = path
        super().__init__(
            f"The store has another table named {table}, at {path}, which another project follows. Give one of the two "
            "tables another name or another store."
        )


def check_name(instance: dg.DagsterInstance, settings: Settings, table: TableSettings) -> None:
    """Raise TakenNameError if the store was last written for a table at another path, and this table has not moved.

    If the stored versions are those of this log, the path only has another spelling.
    """
    path = None
    with suppress(DeltaSnapError):  # of the log or the store: reported where they are needed
        store = store_of(settings)
        poll = store.polls.read(table.name)
        if poll is not None and poll.is_elsewhere(table.path) and was_observed_here(instance, table):
            log = log_of(table)
            path = None if store.common_version(table.name, log, log.list()).is_continued else poll.path
    if path is not None:
        raise TakenNameError(table=table.name, path=path)


def was_observed_here(instance: dg.DagsterInstance, table: TableSettings) -> bool:
    """Return whether the last observation of a table has its path: the table has not moved since then."""
    last = last_observation(instance, table.name)
    uri = None if last is None else last.metadata.get("dagster/uri")
    return uri is not None and uri.value == redacted(table.path)
