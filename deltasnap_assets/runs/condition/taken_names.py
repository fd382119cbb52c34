"""Detects that two projects with the same store follow different tables under one name.

Each would replace the versions of the other, and show its numbers.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby

import dagster as dg

from deltasnap_assets.runs.planning.names import delta_log_key
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import redacted

_PATH = "dagster/uri"
_OBSERVATIONS = 100
_MOST_RETURNS = 1
"""A table can move away and back once. Two projects with one Dagster instance seem to move it again and again."""


class TakenNameError(DeltaSnapError):
    """The store was last written for another table with the same name, at `path`. This one is at `own_path`."""

    def __init__(self, *, table: str, path: str, own_path: str) -> None:
        self.table = table
        self.path = path
        self.own_path = own_path
        super().__init__(
            f"The store has another table named {table}, at {path}, which another project follows. This one is at "
            f"{own_path}. Give one of the two tables another name or another store."
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
        raise TakenNameError(table=table.name, path=path, own_path=redacted(table.path))


def was_observed_here(instance: dg.DagsterInstance, table: TableSettings) -> bool:
    """Return whether the last observation of a table has its path: the table has not moved since then.

    A table that moved away and back more than once did not move: another project with this instance has its name.
    """
    records = instance.fetch_observations(delta_log_key(table.name), limit=_OBSERVATIONS).records
    observed = [record.asset_observation for record in records if record.asset_observation is not None]
    paths = [
        path for path, _ in groupby(str(each.metadata[_PATH].value) for each in observed if _PATH in each.metadata)
    ]
    own = redacted(table.path)
    return paths[:1] == [own] or paths.count(own) > _MOST_RETURNS
