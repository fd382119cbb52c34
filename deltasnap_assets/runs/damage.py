"""Looking at a table that may be damaged: what is found is recorded before it is raised."""

from __future__ import annotations

import dagster as dg

from deltasnap_assets.runs.condition_report import report_condition
from deltasnap_assets.runs.plan import Stored, log_of, look, was_broken, what_is_stored
from deltasnap_assets.runs.table_runs import failed_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, LogStatus, SnapshotStore, TableCondition


class BrokenTableError(DeltaSnapError):
    """Versions of `table` cannot be loaded, or it cannot be reached at all: see `condition`."""

    def __init__(self, *, table: str, condition: TableCondition) -> None:
        self.table = table
        self.condition = condition
        super().__init__(condition.text)


def look_or_report(settings: Settings, table: TableSettings, instance: dg.DagsterInstance) -> tuple[LogStatus, Stored]:
    """Return what `look` does; what is wrong with the log is recorded first, and raised as BrokenTableError.

    Where something was wrong with the table, commits that are not stored yet are read before a run is requested.
    """
    failed = failed_run(instance, table.name)
    try:
        return look(settings, table, examine=failed is not None or was_broken(instance, table.name))
    except DeltaSnapError as error:
        condition = log_of(table).condition()
        report_condition(instance, table, condition, failed)
        if not condition.faults:  # it is the store that failed
            raise
        raise BrokenTableError(table=table.name, condition=condition) from error


def condition_of_failure(settings: Settings, table: TableSettings) -> TableCondition:
    """Return the condition of a table where something went wrong.

    Commits that are not stored yet are read, and every page of the newest checkpoint.
    """
    log = log_of(table)
    try:
        listing = log.list()
        stored = what_is_stored(settings, table, listing)
        found = log.condition(listing, first=stored.sound_until + 1, sound_until=stored.sound_until)
        if found.newest_loadable != stored.sound_until or stored.sound_until not in stored.versions:
            return found
        store = SnapshotStore.open(None, settings.storage, settings.storage_options)
        return found.with_schema_of(store.computed_state(table.name, stored.sound_until).metadata)
    except DeltaSnapError:
        return log.condition()


def report_where_nothing_is_new(instance: dg.DagsterInstance, settings: Settings, table: TableSettings) -> None:
    """Record that a table is well again, or what is wrong with it, where no run is going to do so."""
    failed = failed_run(instance, table.name)
    if failed is not None or was_broken(instance, table.name):
        report_condition(instance, table, condition_of_failure(settings, table), failed)
