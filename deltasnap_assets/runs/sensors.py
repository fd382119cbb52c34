"""The sensors: they poll for new commits and request one run for all new commits of a table.

Each table has its own sensor, which users can see and switch separately. If there are many tables, they share a sensor
that reads their logs in parallel: a tick costs Dagster's daemon more time than reading one log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import dagster as dg

from deltasnap_assets.runs.condition.condition_report import FAILED_RUN, FailedRun, report_condition
from deltasnap_assets.runs.condition.damage import condition_of_failure, report_where_nothing_is_new
from deltasnap_assets.runs.condition.last_look import may_be_unexamined, note_poll
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.pauses import SensorState
from deltasnap_assets.runs.planning.plan import (
    DAMAGED,
    Known,
    Stored,
    job_name,
    known_of,
    last_observation,
    log_of,
    look,
    nothing_to_do,
    plan,
    prepare,
    run_tags,
    was_broken,
    what_is_stored,
)
from deltasnap_assets.runs.table_runs import (
    MAX_ATTEMPTS,
    Failure,
    TablesFailedError,
    failed_run,
    failure_reason,
    failures,
    last_failed,
    unfinished_runs,
)
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import secrets_hidden, without_secrets
from deltasnap_core import DeltaSnapError, LogCursor, LogStatus, logger_of

MAX_SENSORS = 20
"""Up to this many tables have a sensor each. With more, tables with the same `poll_seconds` share one."""

_DAEMON_ROUND_SECONDS = 5
_LOOKS_AT_ONCE = 16
_MAX_MESSAGES = 10
_MAX_TICK_SECONDS = 30
"""Dagster ends a tick after 60 seconds, and its results are lost. The first look at a table is the longest."""
_LAST_LOOK_SECONDS = 15
"""How much longer a tick waits for polls in progress. A storage may not respond at all."""
_log = logger_of(__name__)
_NEXT = "@next"
"""The key in a shared sensor's cursor of the table that the next tick starts with. No table has this name."""

T = TypeVar("T")


class UnresponsiveStorageError(DeltaSnapError):
    """The storage of a table did not respond before the end of a tick."""

    def __init__(self, table: str) -> None:
        self.table = table
        seconds = _MAX_TICK_SECONDS + _LAST_LOOK_SECONDS
        super().__init__(f"The storage of {table} did not respond within {seconds} s. The next tick retries.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The result of a look at a table: runs to request, the next cursor, and a message if there is no request."""

    requests: tuple[dg.RunRequest, ...] = ()
    cursor: str | None
    message: str = ""


def minimum_interval(poll_seconds: int) -> int:
    """Return the minimum interval with which Dagster's daemon polls as often as configured, and not more often.

    The daemon checks every five seconds which ticks are due. A tick with exactly that interval often becomes due just
    after the check and waits for the next one.
    """
    rounds = poll_seconds // _DAEMON_ROUND_SECONDS
    return rounds * _DAEMON_ROUND_SECONDS - 2 if rounds else poll_seconds


def new_commits_sensors(settings: Settings, jobs: Mapping[str, Sequence[Any]]) -> list[dg.SensorDefinition]:
    """Return the sensors of all tables: `<table>_new_commits`, or `new_commits_every_<seconds>_seconds`.

    jobs: the jobs of each table that its sensor targets; it requests the first one.
    """
    if len(settings.tables) <= MAX_SENSORS:
        return [new_commits_sensor(settings, table, jobs[table.name]) for table in settings.tables]
    by_interval: dict[int, list[TableSettings]] = {}
    for table in settings.tables:
        by_interval.setdefault(table.poll_seconds, []).append(table)
    return [_shared_sensor(settings, tables, jobs, seconds) for seconds, tables in sorted(by_interval.items())]


def new_commits_sensor(settings: Settings, table: TableSettings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor `<table>_new_commits`: a tick adds the partitions of new versions and requests their range.

    The cursor is the last commit handled. While a run of the table is in progress, ticks are skipped: a table has one
    run at a time on any instance, and new commits become one range afterwards. Versions whose run failed are retried a
    few times, after pauses. For a damaged table, the loadable versions are requested. A fault fails one tick and is
    recorded on the page of the table. Later ticks skip, and poll again after increasing pauses. While the
    store cannot be reached, every tick fails.
    """

    @dg.sensor(
        name=f"{table.name}_new_commits",
        jobs=jobs,
        minimum_interval_seconds=minimum_interval(table.poll_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Polls the log of {table.name} and materializes its new versions.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        look_at = _looker(settings, [table], context.instance)
        (look,) = _in_time({table.name: lambda: look_at(table, context.cursor)}).values()
        if look.running():
            raise UnresponsiveStorageError(table.name)
        found = look.result()
        return _result([found], found.cursor)

    return new_commits


def _shared_sensor(
    settings: Settings, tables: Sequence[TableSettings], jobs: Mapping[str, Sequence[Any]], poll_seconds: int
) -> dg.SensorDefinition:
    """Return a sensor like `new_commits_sensor` for many tables.

    Its cursor is an object with the cursor of each table. If some tables fail, the others continue, and the tick fails
    when everything else is recorded. If a tick takes too long, the next one starts where it stopped.
    """
    names = [table.name for table in tables]

    @dg.sensor(
        name=f"new_commits_every_{poll_seconds}_seconds",
        jobs=[job for table in tables for job in jobs[table.name]],
        minimum_interval_seconds=minimum_interval(poll_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Polls the logs of {len(tables)} tables and materializes their new versions.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursors = _cursors_of(context.cursor)
        next_name = cursors.pop(_NEXT, None)
        first = names.index(next_name) if next_name in names else 0
        turn, end = [*tables[first:], *tables[:first]], time.monotonic() + _MAX_TICK_SECONDS
        look_at, problems = _looker(settings, tables, context.instance), dict[str, str]()

        def look_or_note(table: TableSettings) -> _Look | None:
            if table is not turn[0] and time.monotonic() >= end:
                return None
            try:
                return look_at(table, cursors.get(table.name))
            except Exception as error:  # noqa: BLE001  # for any error, the other tables are read
                problem = problems[table.name] = without_secrets(str(error))
                return _Look(cursor=cursors.get(table.name), message=f"{table.name}: {problem}")

        futures = _in_time({table.name: partial(look_or_note, table) for table in turn})
        late = [name for name, future in futures.items() if future.running()]
        found = {name: None if each.cancelled() or name in late else each.result() for name, each in futures.items()}
        for name in late:
            problems[name] = str(UnresponsiveStorageError(name))
            found[name] = _Look(cursor=cursors.get(name), message=problems[name])
        looks = [each for each in found.values() if each is not None]
        after = {name: cursors.get(name) if (each := found[name]) is None else each.cursor for name in names}
        if len(looks) < len(tables):
            after[_NEXT] = next(name for name, each in found.items() if each is None)
            context.log.info(f"Polled {len(looks)} of {len(tables)} tables. The next tick continues.")
        if problems and after == cursors and not any(each.requests for each in looks):
            raise TablesFailedError(problems)
        for name, problem in problems.items():
            context.log.error(f"{name}: {problem}")
        return _result(looks, json.dumps(after))

    return new_commits


def _in_time(looks: Mapping[str, Callable[[], T]]) -> Mapping[str, Future[T]]:
    """Run the looks at tables in threads. Return their futures when all are done, or before Dagster ends the tick.

    Then some are still running, and those not started are cancelled.
    """
    threads = ThreadPoolExecutor(_LOOKS_AT_ONCE)
    futures = {name: threads.submit(look) for name, look in looks.items()}
    wait(futures.values(), timeout=_MAX_TICK_SECONDS + _LAST_LOOK_SECONDS)
    threads.shutdown(wait=False, cancel_futures=True)
    return futures


def _result(looks: Sequence[_Look], cursor: str | None) -> dg.SensorResult:
    requests = [request for look in looks for request in look.requests]
    messages = [look.message for look in looks if look.message and not look.requests]
    skipped = (
        None if requests else " ".join(messages[:_MAX_MESSAGES]) + (" ..." if len(messages) > _MAX_MESSAGES else "")
    )
    return dg.SensorResult(run_requests=requests, skip_reason=skipped or None, cursor=cursor)


def _looker(
    settings: Settings, tables: Sequence[TableSettings], instance: dg.DagsterInstance
) -> Callable[[TableSettings, str | None], _Look]:
    """Return a function that polls one of the tables. Queries the instance once for the runs of all tables."""
    names = [table.name for table in tables]
    unfinished = unfinished_runs(instance, names)
    failed, last_failures = failures(instance, names), last_failed(instance, names)

    def look_at(table: TableSettings, cursor: str | None) -> _Look:
        followed = _followed(table, cursor)
        if run_id := unfinished.get(table.name):
            message = f"Run {run_id} of {table.name} is in progress. The next run materializes the new commits."
            return _Look(cursor=followed.to_text(), message=message)
        if followed.pause_left > 0:
            message = f"{table.name} is broken: {followed.fault} Next poll in {followed.pause_left:.0f} s."
            return _Look(cursor=followed.to_text(), message=message)
        try:
            news = _report_failed_run(settings, table, instance, last_failures.get(table.name))
            failure = _open_failure(instance, table, failed.get(table.name))
            if not news and followed.fault is None:
                with suppress(*DAMAGED):
                    return _look_at(settings, table, instance, followed, failure)
            return _look_at_suspect(settings, table, instance, followed, failure)
        except DeltaSnapError:
            condition = log_of(table).condition()
            is_new = report_condition(instance, settings, table, condition if condition.faults else None)
            if is_new or not condition.faults:
                raise  # once, with the reason on the page; each time if the log has no fault, so the store failed
            fault = without_secrets(condition.text)
            message = f"{table.name} is still broken: {fault}"
            return _Look(cursor=followed.broken(fault).to_text(), message=message)

    return look_at


def _cursors_of(text: str | None) -> dict[str, Any]:
    """Return the cursors of a shared sensor by table. If they cannot be read, the sensor starts without cursors."""
    try:
        cursors = json.loads(text or "{}")
        if isinstance(cursors, dict):
            return cursors
        problem = "it is not an object"
    except ValueError as error:
        problem = str(error)
    _log.warning("The cursor of the sensor cannot be read, and is ignored: %s", problem)
    return {}


def _followed(table: TableSettings, cursor: Any) -> SensorState:
    """Return the state of a table. One that cannot be read is ignored: no version is requested twice without it."""
    try:
        return SensorState.from_text(cursor)
    except (TypeError, ValueError) as error:
        _log.warning("The cursor of table %s cannot be read, and is ignored: %s", table.name, error)
        return SensorState()


def _open_failure(instance: dg.DagsterInstance, table: TableSettings, failure: Failure | None) -> Failure | None:
    """Return the failure, unless all its versions were recorded before the run failed."""
    if failure is None or known_of(instance, table.name).done.issuperset(range(failure.first, failure.last + 1)):
        return None
    return failure


def _look_at(
    settings: Settings,
    table: TableSettings,
    instance: dg.DagsterInstance,
    followed: SensorState,
    failure: Failure | None,
) -> _Look:
    log, cursor = log_of(table), followed.cursor
    status = log.new_commits(LogCursor.from_text(cursor)) if cursor else log.status()
    attempt = 1
    if failure is not None and failure.may_be_tried_again and (status is not None or failure.pause_left <= 0):
        status, attempt = log.status(), failure.attempt + 1
    elif failure is not None:
        attempt = failure.attempt
    if status is None:
        note_poll(settings, table)
        if may_be_unexamined(settings, table):
            return _look_at_suspect(settings, table, instance, followed, failure)
        return _Look(cursor=cursor, message=_nothing_new(table, failure))
    note_poll(settings, table, status)
    if was_broken(instance, table.name):
        return _look_at_suspect(settings, table, instance, followed, failure)
    stored = None if status.listing is None else what_is_stored(settings, table, status.listing)
    found = _requested(table, instance, status, known_of(instance, table.name), stored, attempt)
    if stored is not None and stored.common.lost:
        report_where_nothing_is_new(instance, settings, table, status, stored)
    return found


def _report_failed_run(
    settings: Settings, table: TableSettings, instance: dg.DagsterInstance, run_id: str | None
) -> bool:
    """Record that the last run of a table failed. Return whether there are new faults that keep versions from loading.

    run_id: of that run; None: it did not fail.
    """
    if run_id is None:
        return False
    last = last_observation(instance, table.name)
    if last is not None and FAILED_RUN in last.metadata and last.metadata[FAILED_RUN].value == run_id:
        return False
    condition = condition_of_failure(settings, table)
    failed = FailedRun(run_id=run_id, reason=failure_reason(instance, run_id))
    return report_condition(instance, settings, table, condition, failed) and bool(condition.unloadable)


def _look_at_suspect(
    settings: Settings,
    table: TableSettings,
    instance: dg.DagsterInstance,
    followed: SensorState,
    failure: Failure | None,
) -> _Look:
    """Request the versions that can be loaded. If none are left, report the faults and pause."""
    status, stored = look(settings, table, examine=True)
    attempt = failure.attempt + 1 if failure is not None and failure.may_be_tried_again else 1
    known = known_of(instance, table.name)
    found = _requested(table, instance, status, known, stored, attempt)
    if found.requests or status.condition is None or not status.condition.unloadable:
        if not found.requests:
            report_where_nothing_is_new(instance, settings, table, status, stored)
        return found
    report_condition(instance, settings, table, status.condition, failed_run(instance, table.name))
    fault = without_secrets(status.condition.text)
    return _Look(
        cursor=followed.broken(fault, found.cursor).to_text(),
        message=f"All loadable versions of {table.name} are materialized. {fault}",
    )


def _requested(
    table: TableSettings,
    instance: dg.DagsterInstance,
    status: LogStatus,
    known: Known,
    stored: Stored | None,
    attempt: int,
) -> _Look:
    todo = plan(table, status, known, stored)
    prepare(instance, table.name, todo)
    sort_partitions(instance, table.name)
    # No run key, because a range that failed may be requested again.
    return _Look(
        requests=tuple(
            dg.RunRequest(job_name=job_name(table.name), tags=run_tags(table.name, *versions, attempt))
            for versions in todo.ranges
        ),
        cursor=log_of(table).cursor(status, todo.last).to_text(),
        message=nothing_to_do(table, status),
    )


def _nothing_new(table: TableSettings, failure: Failure | None) -> str:
    if failure is None:
        return f"No new commit of {table.name}."
    versions = f"{failure.first} to {failure.last}"
    if not failure.may_be_tried_again:
        return (
            f"Run {failure.run_id} of {table.name} failed, after {MAX_ATTEMPTS} attempts at versions {versions}. "
            f"The schedule or `deltasnap refresh {table.name}` retries them."
        )
    return (
        f"Run {failure.run_id} of {table.name} failed, attempt {failure.attempt} of {MAX_ATTEMPTS} at versions "
        f"{versions}. The next attempt is in {failure.pause_left:.0f} s."
    )
