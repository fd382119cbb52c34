"""The sensors: they poll for new commits and request one run for all new commits of a table.

Each table has its own sensor, which users can see and switch separately. If there are many tables, they share a sensor
that reads their logs in parallel: a tick costs Dagster's daemon more time than reading one log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from deltasnap_assets.runs.apply import Answer
from deltasnap_assets.runs.attached import missing_assets
from deltasnap_assets.runs.observe import Asked
from deltasnap_assets.runs.polls import polled
from deltasnap_assets.runs.table_runs import tables_failed
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.texts import secrets_hidden, without_secrets
from deltasnap_core import LogCursor
from deltasnap_core.support import logger_of

MAX_SENSORS = 20
"""Up to this many tables have a sensor each. With more, tables with the same `poll_seconds` share one."""

_DAEMON_ROUND_SECONDS = 5
_MAX_MESSAGES = 10
_log = logger_of(__name__)
_NEXT = "@next"
"""The key in a shared sensor's cursor of the table that the next tick starts with. No table has this name."""


def minimum_interval(poll_seconds: int) -> int:
    """Return the minimum interval of a sensor, so that it ticks every `poll_seconds`, rounded down to a multiple of 5.

    The daemon checks every five seconds which ticks are due, so values below 5 count as 5. A tick with exactly that
    interval often becomes due just after the check and waits for the next one.
    """
    rounds = poll_seconds // _DAEMON_ROUND_SECONDS
    return rounds * _DAEMON_ROUND_SECONDS - 2 if rounds else poll_seconds


def new_commits_sensors(
    settings: Settings,
    jobs: Mapping[str, Any],
    observe_job: Callable[[str, Sequence[TableSettings]], Any],
    suffix: str = "",
) -> list[dg.SensorDefinition]:
    """Return the sensors of all tables: `<table>_new_commits`, or `new_commits_every_<seconds>_seconds`.

    jobs: the job of each table that its sensor requests.
    observe_job: returns the job with that name that observes the tables of a sensor. The sensor only targets it.
    suffix: of the names of shared sensors, if a project has others.
    """
    if len(settings.tables) <= MAX_SENSORS:
        return [
            new_commits_sensor(
                settings, table, [jobs[table.name], *_observed(observe_job, f"{table.name}_observe", [table])]
            )
            for table in settings.tables
        ]
    by_interval: dict[int, list[TableSettings]] = {}
    for table in settings.tables:
        by_interval.setdefault(table.poll_seconds, []).append(table)
    found = []
    for seconds, tables in sorted(by_interval.items()):
        every = f"every_{seconds}_seconds{suffix}"
        observed = _observed(observe_job, f"observe_{every}", tables)
        description = f"Polls the logs of {len(tables)} tables and materializes their new versions."
        own = [*(jobs[table.name] for table in tables), *observed]
        found.append(_sensor(settings, tables, own, f"new_commits_{every}", description))
    return found


def _observed(
    observe_job: Callable[[str, Sequence[TableSettings]], Any], name: str, tables: Sequence[TableSettings]
) -> list[Any]:
    """Return the job that observes tables, without those that are assets of the project; empty: all of them are."""
    own = [table for table in tables if not table.attach]
    return [observe_job(name, own)] if own else []


def new_commits_sensor(settings: Settings, table: TableSettings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor `<table>_new_commits`, see `_sensor`."""
    description = f"Polls the log of {table.name} and materializes its new versions."
    return _sensor(settings, [table], jobs, f"{table.name}_new_commits", description)


def _sensor(
    settings: Settings, tables: Sequence[TableSettings], jobs: Sequence[Any], name: str, description: str
) -> dg.SensorDefinition:
    """Return a sensor: a tick adds the partitions of new versions and requests a run for their range.

    The cursor has the last commit handled of each table, a `LogCursor`. While a run of a table is in progress, the
    table is skipped: it has one run at a time on any instance, and new commits become one range afterwards, with all
    versions that are missing. Versions whose run failed are not requested again without new commits. For a damaged
    table, the loadable versions are requested. A fault fails one tick and is recorded on the page of the table. Later
    ticks skip, and poll again each minute. While the store cannot be reached, every tick fails.
    If some tables fail, the others continue, and the tick fails when everything else is recorded. If a tick takes too
    long, the next one starts where it stopped.
    """
    names = [table.name for table in tables]

    @dg.sensor(
        name=name,
        jobs=jobs,
        minimum_interval_seconds=minimum_interval(tables[0].poll_seconds),
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
        description=description,
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        before, next_name = _cursors_of(context.cursor, names)
        first = names.index(next_name) if next_name in names else 0
        turn = [*tables[first:], *tables[:first]]
        found, problems = polled(settings, turn, context.instance, Asked.TICK, before)
        answers = {name: answer for name, answer in found.items() if answer is not None}
        has_requests = any(answer.requests for answer in answers.values())
        after = before | {name: answer.cursor for name, answer in answers.items()}
        if problems and after == before and not has_requests:
            if len(tables) == 1:
                raise problems[names[0]]
            raise tables_failed({name: without_secrets(str(error)) for name, error in problems.items()})
        cursors = {name: None if cursor is None else cursor.to_text() for name, cursor in after.items()}
        if len(answers) < len(tables):
            cursors[_NEXT] = next(name for name in found if name not in answers)
            context.log.info(f"Polled {len(answers)} of {len(tables)} tables. The next tick continues.")
        for name, error in problems.items():
            context.log.error(f"{name}: {without_secrets(str(error))}")
        missing = [*missing_assets(context.instance, tables, context.repository_def)]
        if has_requests:  # then the tick has no message of its own
            waiting = [each.message for name, each in answers.items() if each.is_problem and name not in problems]
            for message in [*missing, *waiting][:_MAX_MESSAGES]:
                context.log.warning(message)
        return _result([*answers.values()], json.dumps(cursors), missing)

    return new_commits


def _result(answers: Sequence[Answer], cursor: str | None, missing: Sequence[str] = ()) -> dg.SensorResult:
    requests = [request for answer in answers for request in answer.run_requests]
    partitions = [request for answer in answers for request in answer.partitions]
    problems_first = sorted(answers, key=lambda answer: not answer.is_problem)
    messages = [*missing, *(answer.message for answer in problems_first if answer.message)]
    reason = " ".join(messages[:_MAX_MESSAGES]) + (" ..." if len(messages) > _MAX_MESSAGES else "")
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=partitions,
        skip_reason=None if requests else reason or None,
        cursor=cursor,
    )


def _cursors_of(text: str | None, names: Sequence[str]) -> tuple[dict[str, LogCursor | None], object]:
    """Return the cursors of tables, by name, and the table that is polled first.

    What cannot be read is ignored: no version is requested twice without it.
    """
    cursors = dict[str, LogCursor | None].fromkeys(names)
    try:
        read = json.loads(text or "{}")
        if not isinstance(read, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        _log.warning("The cursor of the sensor cannot be read, and is ignored: %s", error)
        return cursors, None
    for name in cursors.keys() & read.keys():
        try:
            cursors[name] = None if read[name] is None else LogCursor.from_text(read[name])
        except (TypeError, ValueError) as error:
            _log.warning("The cursor of table %s cannot be read, and is ignored: %s", name, error)
    return cursors, read.get(_NEXT)
