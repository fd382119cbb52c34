"""Reads the log of a table that may be damaged. Faults are recorded before the error is raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import dagster as dg

from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.known_faults import condition_unless_known
from deltasnap_assets.runs.condition.poll_records import record_poll
from deltasnap_assets.runs.condition.recorded_polls import has_new_checkpoint, is_examination_due, known_faults
from deltasnap_assets.runs.condition.taken_names import check_name
from deltasnap_assets.runs.planning.known_table import was_broken
from deltasnap_assets.runs.planning.log_status import compared_with_stored, read_status, what_is_stored
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.runs.table_runs import failed_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, LogStatus, StorageError, TableCondition, TableProblem, redacted

_SHORT_LOG = 100
"""A log of at most this many commits is read in a fraction of a second, on S3 too."""


class Examine(Protocol):
    """Examines the log of a table, see `condition_now`."""

    def __call__(self, settings: Settings, table: TableSettings, *, is_whole: bool) -> TableCondition | None: ...


class BrokenTableError(DeltaSnapError):
    """A table has errors: versions cannot be loaded, it cannot be reached, checks failed, or the store is damaged.

    condition: of its log; None: not examined now. problems: of its checks and the store.
    """

    def __init__(self, *, table: str, condition: TableCondition | None, problems: Sequence[TableProblem] = ()) -> None:
        self.table = table
        self.condition = condition
        self.problems = tuple(problems)
        texts = [f"{problem.check}: {problem.text}" for problem in problems]
        super().__init__(" ".join([*([condition.text] if condition and condition.faults else []), *texts]))


def read_status_or_report(
    settings: Settings, table: TableSettings, instance: dg.DagsterInstance
) -> tuple[LogStatus, Stored]:
    """Return the result of `read_status`. Faults of the log are recorded first and then raised as BrokenTableError.

    If the table had a fault before, commits that are not stored yet are read before a run is requested.
    Errors: also TakenNameError.
    """
    check_name(instance, settings, table)
    failed = failed_run(instance, table.name)
    try:
        return read_status(settings, table, examine=failed is not None or was_broken(instance, table.name))
    except DeltaSnapError as error:
        condition = condition_after(settings, table, error)
        report_condition(instance, settings, table, condition, failed)
        if not condition.faults:  # the log has no fault, so the store failed
            raise
        raise BrokenTableError(table=table.name, condition=condition) from error


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
    return condition_unless_known(settings, table, log, listing)


def _depth_in(folder: str, error: StorageError) -> int:
    """Return the length of a folder's URL if an error names a path in it, otherwise 0."""
    url = redacted(folder).rstrip("/")
    return len(url) if f"{error.path}/".startswith(f"{url}/") else 0


def condition_of_whole_log(settings: Settings, table: TableSettings) -> TableCondition:
    """Return the condition of a table after a failure.

    Reads the whole log: every commit, stored or not, and every page of the newest checkpoint. If the log is unchanged
    since faults were found, reads only the files with errors.
    """
    log = log_of(table)
    try:
        listing = log.list()
        stored = what_is_stored(settings, table, listing)
    except DeltaSnapError:
        return log.condition(first=0)
    found = condition_unless_known(settings, table, log, listing, first=0)
    return compared_with_stored(settings, table, found, stored)


def condition_with_new_checkpoint(settings: Settings, table: TableSettings) -> TableCondition:
    """Return the condition of a table after a checkpoint was written. No commit of a stored version is read."""
    log, store = log_of(table), store_of(settings)
    try:
        listing = log.list()
        stored = what_is_stored(settings, table, listing)
        is_new = has_new_checkpoint(store, table.name, listing.newest_checkpoint)
    except DeltaSnapError:
        return log.condition()
    found = condition_unless_known(
        settings, table, log, listing, first=stored.first_unread, sound=stored.sound, read_pages=is_new
    )
    found = found.with_known_faults(known_faults(store, table.name))
    return compared_with_stored(settings, table, found, stored)


def condition_now(settings: Settings, table: TableSettings, *, is_whole: bool) -> TableCondition:
    """Return the condition of a table. is_whole: read the whole log; False: only what a new checkpoint may change."""
    return (condition_of_whole_log if is_whole else condition_with_new_checkpoint)(settings, table)


def report_condition_without_run(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    status: LogStatus,
    stored: Stored | None,
    examine: Examine = condition_now,
    *,
    is_requested: bool = False,
) -> TableCondition | None:
    """Record the faults of a table, or that they are gone, when no run will do so. Return its condition.

    The log is examined if it lost versions, if the poll found damage, if the table was broken, or once a day: polls do
    not find damage in a log without new commits. A new checkpoint is read too: writers write it after the commit.
    is_requested: a user waits for the answer: then a short log is always examined.
    None: the log is not examined. status: the result of the poll without new commits.
    stored: the stored versions and the log compared; None: unknown. examine: `condition_now`, or returns None if that
    takes too long.
    """
    record_poll(settings, table, status)
    failed, is_shorter = failed_run(instance, table.name), stored is not None and bool(stored.common.lost)
    is_damaged = status.condition is not None and bool(status.condition.faults)
    is_due = is_damaged or is_examination_due(store_of(settings), table.name)
    is_short = status.listing is not None and len(status.listing.commits) <= _SHORT_LOG
    is_due = is_due or (is_requested and is_short)
    is_whole = is_shorter or failed is not None or is_due or was_broken(instance, table.name)
    checkpoint = None if status.listing is None else status.listing.newest_checkpoint
    if not is_whole and not has_new_checkpoint(store_of(settings), table.name, checkpoint):
        return None
    condition = examine(settings, table, is_whole=is_whole)
    if condition is not None:
        report_condition(instance, settings, table, condition, failed)
    return condition
