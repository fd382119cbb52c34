"""The runs of tables: unfinished, or failed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.failure_reason import failure_reason
from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.planning.names import (
    CHECKPOINT_JOB,
    PRUNE_JOB,
    RANGE_END_TAG,
    RANGE_START_TAG,
    job_name,
    selects_versions,
    version_keys,
)
from deltasnap_assets.runs.planning.partitions import known_versions
from deltasnap_assets.runs.planning.plan import Known
from deltasnap_assets.settings.table_settings import TABLE_TAG, TableSettings
from deltasnap_core import DeltaSnapError, Problem

_REMEMBERED_SECONDS = 86_400
_MAX_FAILURES = 1_000
_MAX_LATER_RUNS = 100
_ALL_ASSETS = "__ASSET_JOB"
_MAX_MESSAGES = 10
SILENT_SECONDS = 600.0
"""A started run that has written no event for this time may be dead, so nothing waits for it. Two runs of a table do no
harm. Steps of deltasnap write an event at least every two minutes: see `progress_logged`."""
_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_CANCELED = dg.DagsterRunStatus.CANCELED
_FAILED = [dg.DagsterRunStatus.FAILURE, _CANCELED]
_ENDED = [dg.DagsterRunStatus.SUCCESS, *_FAILED]


def tables_failed(problems: Mapping[str, str]) -> DeltaSnapError:
    """Return the error for tables that failed. problems: the reason, by table."""
    shown = [f"{name}: {problem}" for name, problem in list(problems.items())[:_MAX_MESSAGES]]
    more = f" And {len(problems) - len(shown)} more." if len(problems) > len(shown) else ""
    return DeltaSnapError(f"{counted(len(problems), 'table')} failed. {' '.join(shown)}{more}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRuns:
    """The runs of a table. A run belongs to a table if it materializes its assets, no matter how it was started.

    active: the id of a run that a tick waits for: one that is queued, or writes events.
    silent: the runs that may be dead: started, and without an event for ten minutes. The latest first.
    failed: the id of the last run that failed or was canceled within a day. Nothing may be missing any more.
    """

    active: str | None = None
    silent: Sequence[dg.RunRecord] = ()
    failed: str | None = None

    @classmethod
    def of(cls, instance: dg.DagsterInstance, tables: Collection[TableSettings]) -> Mapping[str, TableRuns]:
        """Return the runs of tables, by table. Two queries for all of them."""
        active, silent = dict[str, str](), defaultdict[str, list[dg.RunRecord]](list)
        for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED)):
            if names := _tables_of(record.dagster_run, tables):
                is_silent = _is_silent(instance, record)
                for name in names:
                    silent[name].extend([record] if is_silent else [])
                active.update({} if is_silent else dict.fromkeys(names, record.dagster_run.run_id))
        since = datetime.fromtimestamp(time.time() - _REMEMBERED_SECONDS, UTC)
        filters = dg.RunsFilter(statuses=_FAILED, updated_after=since)
        records = filter(_has_versions, reversed(instance.get_run_records(filters, limit=_MAX_FAILURES)))
        failed = {n: each.dagster_run.run_id for each in records for n in _tables_of(each.dagster_run, tables)}
        return {
            n: cls(active=active.get(n), silent=silent[n], failed=failed.get(n))
            for n in (table.name for table in tables)
        }


def has_active_run(instance: dg.DagsterInstance, job: str) -> bool:
    """Return whether a run of a job is queued or writes events."""
    records = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_UNFINISHED))
    return not all(_is_silent(instance, record) for record in records)


def _is_silent(instance: dg.DagsterInstance, record: dg.RunRecord) -> bool:
    """Return whether a run may be dead. Reads its last event only if its status did not change for ten minutes."""
    run, silent_since = record.dagster_run, time.time() - SILENT_SECONDS
    if run.status is dg.DagsterRunStatus.QUEUED or record.update_timestamp.timestamp() >= silent_since:
        return False
    last = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    return not any(event.timestamp >= silent_since for event in last)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedRun:
    """The last run of a table that left versions missing: it failed, was canceled, or may be dead.

    missing: these versions. is_last_attempt: whether a tick does not repeat it: a run that ended is not repeated, a
    silent one only once.
    """

    record: dg.RunRecord
    missing: Sequence[int]
    is_last_attempt: bool = True

    @classmethod
    def of(
        cls, instance: dg.DagsterInstance, table: TableSettings, silent: Sequence[dg.RunRecord] = ()
    ) -> MissedRun | None:
        """Return the value; None: no version is missing. silent: see `TableRuns`."""
        ended = [record for record in _ended_runs(instance, table) if record.dagster_run.status in _FAILED]
        record, missing = _first_missed(instance, table, [*ended, *silent])
        if record is None:
            return None
        if record not in silent:
            return cls(record=record, missing=missing)
        tagged = requested_runs(instance, table.name)
        attempts = sum(missing[-1] in versions_of_run(each.dagster_run) for each in tagged)
        return cls(record=record, missing=missing, is_last_attempt=attempts > 1)

    @property
    def run_id(self) -> str:
        return self.record.dagster_run.run_id


def failed_run(instance: dg.DagsterInstance, table: TableSettings) -> Problem | None:
    """Return the failed run of a table, with the reason; None: there is none.

    It is the last failed run whose versions are still missing. Later runs of other versions do not change that. If no
    versions are missing, it is the last run, if that failed within a day. A canceled run counts only if its versions
    are missing.
    """
    ended = _ended_runs(instance, table)
    record, missing = _first_missed(instance, table, [r for r in ended if r.dagster_run.status in _FAILED])
    if record is None:
        record = next((each for each in ended if each.dagster_run.status is not _CANCELED), None)
        if record is None or record.dagster_run.is_success:
            return None
        if time.time() - record.update_timestamp.timestamp() >= _REMEMBERED_SECONDS:
            return None
    run = record.dagster_run
    if run.status is _CANCELED:
        reason = f"version {missing[0]} is missing, because the run was canceled."
    else:
        reason = failure_reason(instance, run.run_id)
    return failed_run_problem(run.run_id, reason, missing)


def _first_missed(
    instance: dg.DagsterInstance, table: TableSettings, runs: Sequence[dg.RunRecord]
) -> tuple[dg.RunRecord | None, Sequence[int]]:
    """Return the latest of the runs that left versions missing, and those. Versions are queried if there are runs."""
    known = known_of(instance, table) if runs else Known()
    for record in sorted(runs, key=_storage_id, reverse=True):
        if missing := known.missing(versions_of_run(record.dagster_run)):
            return record, missing
    return None, ()


def stores_versions(run: dg.DagsterRun) -> bool:
    """Return whether a run materializes versions, unlike a run of maintenance or one that only evaluates checks."""
    if run.job_name.startswith((PRUNE_JOB, CHECKPOINT_JOB)):  # their partitions are tables
        return False
    return selects_versions(run.tags) and bool(run.asset_selection or not run.asset_check_selection)


def ends_failure(instance: dg.DagsterInstance, table: TableSettings, run: dg.DagsterRun) -> bool:
    """Return whether a run that succeeds ends the failure of its table: no other version is missing."""
    missed = MissedRun.of(instance, table)
    return stores_versions(run) and (missed is None or set(missed.missing).issubset(versions_of_run(run)))


def last_ended_run(instance: dg.DagsterInstance, table_name: str) -> dg.RunRecord | None:
    """Return the last run with the tag of a table that materialized versions and has ended; None: there is none."""
    records = filter(_has_versions, requested_runs(instance, table_name))
    return next((record for record in records if record.dagster_run.is_finished), None)


def versions_of_run(run: dg.DagsterRun) -> range:
    """Return the versions of a run; empty: it has no range."""
    ends = known_versions(run.tags.get(tag, "") for tag in (RANGE_START_TAG, RANGE_END_TAG))
    return range(ends[0], ends[1] + 1) if len(ends) == 2 else range(0)


def _storage_id(record: dg.RunRecord) -> int:
    return record.storage_id


def _has_versions(record: dg.RunRecord) -> bool:
    return stores_versions(record.dagster_run)


def _ended_runs(instance: dg.DagsterInstance, table: TableSettings) -> list[dg.RunRecord]:
    """Return the runs of a table that materialized versions and ended, however started, the latest first.

    A run without the tag of the table is found by the assets of the table: Dagster keeps the last run of each.
    """
    tagged = dg.RunsFilter(tags={TABLE_TAG: table.name}, statuses=_ENDED)
    records = list(instance.get_run_records(tagged, limit=_MAX_LATER_RUNS))
    assets = instance.get_asset_records(version_keys(table))
    entries = [asset.asset_entry for asset in assets]
    events = [entry.last_materialization for entry in entries if entry.last_materialization is not None]
    run_ids = {entry.last_run_id for entry in entries} | {event.run_id for event in events}
    if found := [run_id for run_id in run_ids if run_id]:
        records += instance.get_run_records(dg.RunsFilter(run_ids=found, statuses=_ENDED))
    return sorted(filter(_has_versions, records), key=_storage_id, reverse=True)


def requested_runs(instance: dg.DagsterInstance, table_name: str) -> Sequence[dg.RunRecord]:
    """Return the last runs with the tag of a table, the latest first."""
    return instance.get_run_records(dg.RunsFilter(tags={TABLE_TAG: table_name}), limit=_MAX_LATER_RUNS)


def _tables_of(run: dg.DagsterRun, tables: Collection[TableSettings]) -> list[str]:
    """Return the names of the tables whose assets a run materializes."""
    tagged = run.tags.get(TABLE_TAG)
    return [table.name for table in tables if (_is_of(run, table) if tagged is None else table.name == tagged)]


def _is_of(run: dg.DagsterRun, table: TableSettings) -> bool:
    """Return whether a run without our tag, from Dagster's UI or a backfill, materializes assets of a table."""
    if run.job_name == job_name(table.name):
        return True
    if run.asset_selection is None:
        return run.job_name == _ALL_ASSETS
    return not run.asset_selection.isdisjoint(version_keys(table))
