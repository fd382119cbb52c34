"""The runs of tables: unfinished, or failed and to be retried."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from typing import Any

import dagster as dg

from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.condition.fault_texts import FailedRun
from deltasnap_assets.runs.due import Failure
from deltasnap_assets.runs.failure_reason import failure_reason
from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.planning.names import (
    ASSET_NAMES,
    ATTEMPT_TAG,
    CHECKPOINT_JOB,
    CHECKS_TAG,
    PRUNE_JOB,
    RANGE_END_TAG,
    RANGE_START_TAG,
    job_name,
    selects_versions,
)
from deltasnap_assets.runs.planning.partitions import known_versions
from deltasnap_assets.runs.planning.plan import Known
from deltasnap_assets.settings.config import TABLE_TAG
from deltasnap_core import DeltaSnapError

_REMEMBERED_SECONDS = 86_400
_MAX_FAILURES = 1_000
_MAX_LATER_RUNS = 100
_MAX_TABLES = 1_000  # names in one query
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


class TablesFailedError(DeltaSnapError):
    """Some of the tables failed. problems: the reason, by table."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = problems
        shown = [f"{name}: {problem}" for name, problem in list(problems.items())[:_MAX_MESSAGES]]
        more = f" And {len(problems) - len(shown)} more." if len(problems) > len(shown) else ""
        super().__init__(f"{counted(len(problems), 'table')} failed. {' '.join(shown)}{more}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedRuns:
    """The unfinished runs of tables, by table. Tables without one are left out.

    A run belongs to a table if it materializes the table's assets, no matter how it was started.
    active: the id of a run that a tick waits for: one that is queued, or writes events.
    silent: the runs that may be dead: started, and without an event for ten minutes. The latest first.
    """

    active: Mapping[str, str]
    silent: Mapping[str, Sequence[dg.RunRecord]]

    @classmethod
    def of(cls, instance: dg.DagsterInstance, table_names: Collection[str]) -> UnfinishedRuns:
        """Return the unfinished runs of tables."""
        active, silent = dict[str, str](), defaultdict[str, list[dg.RunRecord]](list)
        for record in instance.get_run_records(dg.RunsFilter(statuses=_UNFINISHED)):
            tables = [name for name in table_names if _is_of(record.dagster_run, name)]
            if not tables:
                continue
            if _is_silent(instance, record):
                for name in tables:
                    silent[name].append(record)
            else:
                active.update(dict.fromkeys(tables, record.dagster_run.run_id))
        return cls(active=active, silent=silent)


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
class LastFailures:
    """The failures of tables within a day, by table, except those that are over: see `end_failure`.

    last: the id of the run of `failed_run`.
    requested: the same among the runs that deltasnap requested: their versions may be requested again. A silent run
    whose versions are missing counts as failed.
    """

    last: Mapping[str, str]
    requested: Mapping[str, Failure]

    @classmethod
    def of(
        cls, instance: dg.DagsterInstance, table_names: Collection[str], silent: Mapping[str, Sequence[dg.RunRecord]]
    ) -> LastFailures:
        """Return the failures of tables. A table without a failure, or whose last one is over, costs no query.

        silent: see `UnfinishedRuns`.
        """
        tagged, over = _failed_within_a_day(instance, table_names), _ended_failures(instance, table_names)
        untagged, last, requested = _untagged_failures(instance), dict[str, str](), dict[str, Failure]()
        for name in table_names:
            failed = [record for record in untagged if _is_of(record.dagster_run, name)]
            failed += [tagged[name]] if name in tagged else []
            newest = max(failed, key=_storage_id, default=None)
            is_failed = newest is not None and newest.dagster_run.run_id != over.get(name)
            if not is_failed and name not in silent:
                continue
            runs = _TableRuns(instance, name, over.get(name))
            if newest is not None and is_failed:
                if (record := runs.last_failed()) is not None:
                    last[name] = record.dagster_run.run_id
                else:
                    end_failure(instance, name, newest.dagster_run.run_id)
            may_retry = name in last or name in silent
            if may_retry and (failure := runs.failure_of_request(silent.get(name, ()))) is not None:
                requested[name] = failure
        return cls(last=last, requested=requested)


class _TableRuns:
    """The runs of a table. The facts about its versions are queried at most once, and only if a run failed."""

    def __init__(self, instance: dg.DagsterInstance, table_name: str, over: str | None) -> None:
        """over: the last failed run whose failure is over, see `end_failure`; None: there is none."""
        self._instance = instance
        self._table_name = table_name
        self._over = over

    @classmethod
    def of(cls, instance: dg.DagsterInstance, table_name: str) -> _TableRuns:
        return cls(instance, table_name, _ended_failures(instance, [table_name]).get(table_name))

    @cached_property
    def _known(self) -> Known:
        return known_of(self._instance, self._table_name)

    def missing(self, run: dg.DagsterRun) -> list[int]:
        """Return the versions of a run that have a partition but are not materialized, ascending."""
        first, last = _range_of(run) or (0, -1)
        known = self._known
        return sorted(version for version in known.versions if first <= version <= last and version not in known.done)

    def last_failed(self) -> dg.RunRecord | None:
        """Return the run of `failed_run`, however it was started."""
        return self._last_failed_of(_ended_runs(self._instance, self._table_name))

    def failure_of_request(self, silent: Sequence[dg.RunRecord]) -> Failure | None:
        """Return the failure of a run that deltasnap requested; None: there is none.

        silent: the runs of the table that may be dead. One whose versions are missing counts as failed.
        """
        record = self._last_failed_of(requested_runs(self._instance, self._table_name), silent)
        versions = None if record is None else _range_of(record.dagster_run)
        if record is None or versions is None:
            return None
        run = record.dagster_run
        return Failure(
            run_id=run.run_id,
            first=versions[0],
            last=versions[1],
            attempt=int(run.tags.get(ATTEMPT_TAG, 1)),
            ended=record.update_timestamp.timestamp(),
            is_for_checks=CHECKS_TAG in run.tags,
            is_canceled=run.status is _CANCELED,
            is_silent=not run.is_finished,
        )

    def _last_failed_of(
        self, records: Iterable[dg.RunRecord], silent: Sequence[dg.RunRecord] = ()
    ) -> dg.RunRecord | None:
        """Return the last failed run whose versions are missing, else the last run, if it failed; None: there is none.

        records: the latest first.
        """
        runs = [*takewhile(lambda record: record.dagster_run.run_id != self._over, filter(_has_versions, records))]
        failed = [record for record in runs if record.dagster_run.status in _FAILED]
        dead = {record.dagster_run.run_id for record in (*failed, *silent)}
        for record in runs:
            if record.dagster_run.run_id in dead and self.missing(record.dagster_run):
                return record
        last = next((record for record in runs if record.dagster_run.status is not _CANCELED), None)
        return last if last in failed else None


def _untagged_failures(instance: dg.DagsterInstance) -> list[dg.RunRecord]:
    """Return the failed runs without our tag that materialize versions: from Dagster's UI, backfills, other jobs."""
    filters = (_recent_failures(job_name=job) for job in (_ALL_ASSETS, None))
    records = (record for each in filters for record in instance.get_run_records(each, limit=_MAX_FAILURES))
    return [record for record in records if TABLE_TAG not in record.dagster_run.tags and _has_versions(record)]


def _failed_within_a_day(instance: dg.DagsterInstance, table_names: Collection[str]) -> dict[str, dg.RunRecord]:
    """Return the last failed run of each table with our tag that materializes versions.

    Tables that were found are left out of the next query: so one that fails often does not hide others.
    """
    found: dict[str, dg.RunRecord] = {}
    names = sorted(table_names)
    for start in range(0, len(names), _MAX_TABLES):
        left, cursor = set(names[start : start + _MAX_TABLES]), None
        while left:
            filters = _recent_failures(tags={TABLE_TAG: sorted(left)})
            records = instance.get_run_records(filters, limit=_MAX_FAILURES, cursor=cursor)  # the latest first
            for record in records:
                if _has_versions(record):
                    found.setdefault(record.dagster_run.tags[TABLE_TAG], record)
            if len(records) < _MAX_FAILURES:
                break
            left, cursor = left.difference(found), records[-1].dagster_run.run_id
    return found


def _recent_failures(**filters: Any) -> dg.RunsFilter:
    since = datetime.fromtimestamp(time.time() - _REMEMBERED_SECONDS, UTC)
    return dg.RunsFilter(statuses=_FAILED, updated_after=since, **filters)


def failed_run(instance: dg.DagsterInstance, table_name: str) -> FailedRun | None:
    """Return the failed run of a table, with the reason; None: there is none.

    It is the last failed run whose versions are still missing. Later runs of other versions do not change that. If no
    versions are missing, it is the last run, if that failed within a day. A canceled run counts only if its versions
    are missing. Runs up to the one of `end_failure` do not count.
    """
    runs = _TableRuns.of(instance, table_name)
    record = runs.last_failed()
    if record is None:
        return None
    run = record.dagster_run
    is_recent = time.time() - record.update_timestamp.timestamp() < _REMEMBERED_SECONDS
    first_missing = next(iter(runs.missing(run)), None)
    if not is_recent and first_missing is None:
        return None
    canceled = f"version {first_missing} is missing, because the run was canceled."
    reason = canceled if run.status is _CANCELED else failure_reason(instance, run.run_id)
    return FailedRun(run_id=run.run_id, reason=reason, first_missing=first_missing)


def end_failure(instance: dg.DagsterInstance, table_name: str, run_id: str) -> None:
    """Record that the failure of a run is over, with all failures before: nothing is left to retry.

    Later runs succeeded and no version is missing, or the log no longer has its versions.
    """
    instance.daemon_cursor_storage.set_cursor_values({_failure_key(table_name): run_id})


def _ended_failures(instance: dg.DagsterInstance, table_names: Collection[str]) -> Mapping[str, str]:
    """Return the last failed run of each table whose failure is over, by table."""
    keys = {_failure_key(name): name for name in table_names}
    found = instance.daemon_cursor_storage.get_cursor_values(set(keys)) if keys else {}
    return {keys[key]: run_id for key, run_id in found.items()}


def _failure_key(table_name: str) -> str:
    return f"deltasnap/ended_failure/{table_name}"


def stores_versions(run: dg.DagsterRun) -> bool:
    """Return whether a run materializes versions, unlike a run of maintenance or one that only evaluates checks."""
    if run.job_name in (PRUNE_JOB, CHECKPOINT_JOB):  # their partitions are tables
        return False
    return selects_versions(run.tags) and bool(run.asset_selection or not run.asset_check_selection)


def ends_failure(instance: dg.DagsterInstance, table_name: str, run: dg.DagsterRun) -> bool:
    """Return whether a run that succeeds ends the failure of its table: no other version is missing."""
    if not stores_versions(run):
        return False
    runs = _TableRuns.of(instance, table_name)
    record = runs.last_failed()
    first, last = _range_of(run) or (0, -1)
    missing = [] if record is None else runs.missing(record.dagster_run)
    return all(first <= version <= last for version in missing)


def last_ended_run(instance: dg.DagsterInstance, table_name: str) -> dg.RunRecord | None:
    """Return the last run with the tag of a table that materialized versions and has ended; None: there is none."""
    records = filter(_has_versions, requested_runs(instance, table_name))
    return next((record for record in records if record.dagster_run.is_finished), None)


def versions_of_run(run: dg.DagsterRun) -> range:
    """Return the versions of a run; empty: it has no range."""
    first, last = _range_of(run) or (0, -1)
    return range(first, last + 1)


def _range_of(run: dg.DagsterRun) -> tuple[int, int] | None:
    """Return the first and the last version of a run; None: it has no range."""
    versions = known_versions(run.tags.get(tag, "") for tag in (RANGE_START_TAG, RANGE_END_TAG))
    return (versions[0], versions[1]) if len(versions) == 2 else None


def _storage_id(record: dg.RunRecord) -> int:
    return record.storage_id


def _has_versions(record: dg.RunRecord) -> bool:
    return stores_versions(record.dagster_run)


def _ended_runs(instance: dg.DagsterInstance, table_name: str) -> list[dg.RunRecord]:
    """Return the runs of a table that ended, however started, the latest first.

    A run without the tag of the table is found by the assets of the table: Dagster keeps the last run of each.
    """
    tagged = dg.RunsFilter(tags={TABLE_TAG: table_name}, statuses=_ENDED)
    records = list(instance.get_run_records(tagged, limit=_MAX_LATER_RUNS))
    assets = instance.get_asset_records([dg.AssetKey([table_name, name]) for name in ASSET_NAMES])
    entries = [asset.asset_entry for asset in assets]
    events = [entry.last_materialization for entry in entries if entry.last_materialization is not None]
    run_ids = {entry.last_run_id for entry in entries} | {event.run_id for event in events}
    if found := [run_id for run_id in run_ids if run_id]:
        records += instance.get_run_records(dg.RunsFilter(run_ids=found, statuses=_ENDED))
    return sorted(records, key=_storage_id, reverse=True)


def requested_runs(instance: dg.DagsterInstance, table_name: str) -> Sequence[dg.RunRecord]:
    """Return the last runs with the tag of a table, the latest first."""
    return instance.get_run_records(dg.RunsFilter(tags={TABLE_TAG: table_name}), limit=_MAX_LATER_RUNS)


def _is_of(run: dg.DagsterRun, table_name: str) -> bool:
    """Return whether a run materializes assets of a table. Runs from Dagster's UI and backfills do not have our tag."""
    if run.tags.get(TABLE_TAG) == table_name or run.job_name == job_name(table_name):
        return True
    if run.asset_selection is None:
        return run.job_name == _ALL_ASSETS
    return any(dg.AssetKey([table_name, name]) in run.asset_selection for name in ASSET_NAMES)
