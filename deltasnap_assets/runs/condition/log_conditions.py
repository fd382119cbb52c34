"""The condition of a table now: its log is read for faults."""

from __future__ import annotations

from collections.abc import Sequence

from deltasnap_assets.runs.condition.known_faults import condition_unless_known
from deltasnap_assets.runs.due import WHOLE_LOG, LogReads
from deltasnap_assets.runs.planning.log_status import compared_with_stored, what_is_stored
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError, Problem, TableCondition
from deltasnap_core.errors import StorageError
from deltasnap_core.support import redacted


class BrokenTableError(DeltaSnapError):
    """A table has errors: versions cannot be loaded, it cannot be reached, checks failed, or the store is damaged.

    condition: of its log; None: not examined now. problems: of its checks and the store.
    """

    def __init__(self, *, table: str, condition: TableCondition | None, problems: Sequence[Problem] = ()) -> None:
        self.table = table
        self.condition = condition
        self.problems = tuple(problems)
        texts = [f"{problem.check}: {problem.text}" for problem in problems]
        super().__init__(" ".join([*([condition.text] if condition and condition.faults else []), *texts]))


def condition_after(settings: Settings, table: TableSettings, error: DeltaSnapError) -> TableCondition:
    """Return the condition of a table that could not be polled. Errors: the given one, if the store failed.

    An outage of the store says nothing about the logs, so none is read.
    """
    log = log_of(table)
    if isinstance(error, StorageError) and _depth_in(store_of(settings).root, error) > _depth_in(log.table_path, error):
        raise error
    try:
        listing = log.list()
    except DeltaSnapError:
        return log.condition()
    return condition_unless_known(settings, table, log, listing, LogReads())


def _depth_in(folder: str, error: StorageError) -> int:
    """Return the length of a folder's URL if an error names a path in it, otherwise 0."""
    url = redacted(folder).rstrip("/")
    return len(url) if f"{error.path}/".startswith(f"{url}/") else 0


def condition_now(settings: Settings, table: TableSettings) -> TableCondition:
    """Return the condition of a table, from its whole log.

    If its log is unchanged since faults were found, reads only the files with errors.
    """
    log = log_of(table)
    try:
        listing = log.list()
        stored = what_is_stored(settings, table, listing)
    except DeltaSnapError:
        return log.condition(first=0)
    found = condition_unless_known(settings, table, log, listing, WHOLE_LOG)
    return compared_with_stored(settings, table, found, stored)
