"""Lists the whole log of a table, and compares it with the stored versions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from deltasnap_assets.runs.condition.known_faults import condition_unless_known
from deltasnap_assets.runs.due import reads_of_tick
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaSnapError,
    LogStatus,
    SnapshotState,
    TableCondition,
    VersionGapError,
)
from deltasnap_core.support import LogListing, LogRelation, system_clock

DAMAGED = (VersionGapError, CorruptLogError, ActionNotFoundError)
"""The errors of `status` when some versions of the log may still be loadable."""


def read_status(settings: Settings, table: TableSettings, *, examine: bool = False) -> tuple[LogStatus, Stored]:
    """Return the contents of a table's log, and how the stored versions relate to it. Lists the log and the store once.

    If the stored log is the current one, the table is the same, and its id is not read from the log.
    examine: whether to read the commits that are not stored yet, and leave out versions that cannot be loaded. This
    also happens if the latest version cannot be loaded.
    """
    log = log_of(table)
    listing = log.list()
    stored = what_is_readable(settings, table, listing)
    is_same = stored.common.relation is LogRelation.SAME
    table_id = stored.common.table_id if is_same else None
    if not examine:
        with suppress(*DAMAGED):
            return log.status(listing, table_id), stored
    reads = reads_of_tick(store_of(settings).polls.read(table.name), system_clock(), stored)
    condition = condition_unless_known(settings, table, log, listing, reads)
    if condition.latest is not None and condition.newest_loadable is None:
        raise DeltaSnapError(condition.text)  # the log has no table id to find
    return log.status(listing, table_id, condition=condition), stored


def what_is_stored(settings: Settings, table: TableSettings, listing: LogListing) -> Stored:
    """Return the stored versions of a table, compared with a listing of its log.

    If the log was rolled back, there is no new version to write: its fork is recorded here.
    """
    store = store_of(settings)
    common = store.common_version(table.name, log_of(table), listing)
    if common.relation is LogRelation.ROLLED_BACK:
        store.begin_fork(table.name, common)
        return Stored(common=common, versions=frozenset(v for v in common.current if v <= (common.version or 0)))
    return Stored(common=common, versions=frozenset(common.current))


def what_is_readable(settings: Settings, table: TableSettings, listing: LogListing) -> Stored:
    """Return the result of `what_is_stored` for a plan.

    A version that lacks a file is stored again if the log still has it, so it does not count as stored.
    """
    stored = what_is_stored(settings, table, listing)
    if stored.common.relation is LogRelation.ROLLED_BACK:
        return stored  # begins a fork: the next poll looks at the files
    incomplete = store_of(settings).table(table.name).incomplete_versions(stored.common.names)
    again = incomplete.keys() & listing.reconstructable_versions() if incomplete else frozenset[int]()
    return replace(
        stored,
        versions=stored.versions - again,
        unreadable={version: problem for version, problem in incomplete.items() if version not in again},
    )


def compared_with_stored(
    settings: Settings, table: TableSettings, condition: TableCondition, stored: Stored
) -> TableCondition:
    """Return a condition with the fault of a checkpoint that differs from the stored version, and of lost versions.

    A damaged store is no fault of the log: it is reported elsewhere.
    """
    counted = condition.counted
    state = None if counted is None else stored_state(settings, table, stored, counted[0].version)
    if state is not None:
        condition = condition.with_stored_files(state.num_of_files)
    return condition.with_lost_versions(stored.common.lost)


def stored_state(settings: Settings, table: TableSettings, stored: Stored, version: int | None) -> SnapshotState | None:
    """Return the state of a version; None: it is not stored, or cannot be read. version: None: there is none."""
    if version is not None and version in stored.sound:
        with suppress(DeltaSnapError):
            return store_of(settings).computed_state(table.name, version)
    return None
