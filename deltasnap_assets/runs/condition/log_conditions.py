"""The condition of a table now: its log is read for faults, also while ticks continue, if that takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial

from deltasnap_assets.runs.condition.known_faults import condition_unless_known
from deltasnap_assets.runs.condition.poll_findings import known_faults
from deltasnap_assets.runs.due import WHOLE_LOG, Examination, LogReads, reads_of_checkpoint
from deltasnap_assets.runs.memory import EXAMINATIONS, LongRead, key_of_table
from deltasnap_assets.runs.planning.log_status import compared_with_stored, what_is_stored
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, Problem, TableCondition
from deltasnap_core.errors import StorageError
from deltasnap_core.support import ReadThreads, redacted

_AT_ONCE = 16
_WAIT_SECONDS = 5.0
"""How long a tick waits for an examination that it starts. Most logs are short."""


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


def condition_now(
    settings: Settings, table: TableSettings, examination: Examination = Examination.WHOLE_LOG
) -> TableCondition:
    """Return the condition of a table.

    If its log is unchanged since faults were found, reads only the files with errors.
    """
    log, is_whole = log_of(table), examination is Examination.WHOLE_LOG
    try:
        listing = log.list()
        stored = what_is_stored(settings, table, listing)
        poll = None if is_whole else store_of(settings).polls.read(table.name)
    except DeltaSnapError:
        return log.condition(first=0 if is_whole else None)
    reads = WHOLE_LOG if is_whole else reads_of_checkpoint(poll, stored, listing.newest_checkpoint)
    found = condition_unless_known(settings, table, log, listing, reads).with_known_faults(known_faults(poll))
    return compared_with_stored(settings, table, found, stored)


def may_examine() -> bool:
    """Return whether few enough examinations are in progress to start another one."""
    return EXAMINATIONS.num_running < _AT_ONCE


def examination_of(settings: Settings, table: TableSettings, examination: Examination) -> LongRead[TableCondition]:
    """Return the examination of a table, a run of `condition_now`. Start it if there is none.

    The caller must use the result of an ended examination now: the next call starts another one.
    """
    key = key_of_table(settings, table)
    seconds = 0.0 if key in EXAMINATIONS else _WAIT_SECONDS
    read = partial(condition_now, settings, table, examination)
    found = EXAMINATIONS.of(key, lambda: ReadThreads(1).submit(read))
    wait([found.future], timeout=seconds)
    if found.future.done():
        EXAMINATIONS.end(key)
    return found
