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
from deltasnap_assets.runs.observe import Asked
from deltasnap_assets.runs.polls import polled
from deltasnap_assets.runs.table_runs import TablesFailedError
from deltasnap_assets.settings.config import Settings, TableSettings
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
    return [
        _shared_sensor(
            settings,
            tables,
            [
                *(jobs[table.name] for table in tables),
                *_observed(observe_job, f"observe_every_{seconds}_seconds{suffix}", tables),
            ],
            f"new_commits_every_{seconds}_seconds{suffix}",
        )
        for seconds, tables in sorted(by_interval.items())
    ]


def _observed(
    observe_job: Callable[[str, Sequence[TableSettings]], Any], name: str, tables: Sequence[TableSettings]
) -> list[Any]:
    """Return the job that observes tables, without those that are assets of the project; empty: all of them are."""
    own = [table for table in tables if not table.attach]
    return [observe_job(name, own)] if own else []


def new_commits_sensor(settings: Settings, table: TableSettings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor `<table>_new_commits`: a tick adds the partitions of new versions and requests their range.

    The cursor is the last commit handled, a `LogCursor`. While a run of the table is in progress, ticks are skipped: a
    table has one run at a time on any instance, and new commits become one range afterwards, with all versions that are
    missing. Versions whose run failed are not requested again without new commits. For a damaged table, the loadable
    versions are requested. A fault fails one tick and is recorded on the page of the table. Later ticks skip, and poll
    again each minute. While the store cannot be reached, every tick fails.
    """

    @dg.sensor(
        name=f"{table.name}_new_commits",
        jobs=jobs,
        minimum_interval_seconds=minimum_interval(table.poll_seconds),
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
        description=f"Polls the log of {table.name} and materializes its new versions.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursor = _cursor_of(table.name, context.cursor)
        found, problems = polled(settings, [table], context.instance, Asked.TICK, {table.name: cursor})
        for problem in problems.values():
            raise problem
        answers = [answer for answer in found.values() if answer is not None]
        return _result(answers, _text_of(answers[0].cursor) if answers else context.cursor)

    return new_commits


def _shared_sensor(
    settings: Settings, tables: Sequence[TableSettings], jobs: Sequence[Any], name: str
) -> dg.SensorDefinition:
    """Return a sensor like `new_commits_sensor` for many tables.

    Its cursor is an object with the cursor of each table. If some tables fail, the others continue, and the tick fails
    when everything else is recorded. If a tick takes too long, the next one starts where it stopped.
    """
    names = [table.name for table in tables]

    @dg.sensor(
        name=name,
        jobs=jobs,
        minimum_interval_seconds=minimum_interval(tables[0].poll_seconds),
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
        description=f"Polls the logs of {len(tables)} tables and materializes their new versions.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        texts = _cursors_of(context.cursor)
        next_name = texts.pop(_NEXT, None)
        first = names.index(next_name) if next_name in names else 0
        cursors = {name: _cursor_of(name, texts.get(name)) for name in names}
        turn = [*tables[first:], *tables[:first]]
        found, problems = polled(settings, turn, context.instance, Asked.TICK, cursors)
        answers = {name: answer for name, answer in found.items() if answer is not None}
        has_requests = any(answer.requests for answer in answers.values())
        before = {name: texts.get(name) for name in names}
        after = before | {name: _text_of(answer.cursor) for name, answer in answers.items()}
        if len(answers) < len(tables):
            after[_NEXT] = next(name for name in found if name not in answers)
            context.log.info(f"Polled {len(answers)} of {len(tables)} tables. The next tick continues.")
        if problems and after == before and not has_requests:
            raise TablesFailedError({name: without_secrets(str(error)) for name, error in problems.items()})
        for name, error in problems.items():
            context.log.error(f"{name}: {without_secrets(str(error))}")
        if has_requests:  # then the tick has no message of its own
            waiting = [each.message for name, each in answers.items() if each.is_problem and name not in problems]
            for message in waiting[:_MAX_MESSAGES]:
                context.log.warning(message)
        return _result([*answers.values()], json.dumps(after))

    return new_commits


def _result(answers: Sequence[Answer], cursor: str | None) -> dg.SensorResult:
    requests = [request for answer in answers for request in answer.run_requests]
    partitions = [request for answer in answers for request in answer.partitions]
    problems_first = sorted(answers, key=lambda answer: not answer.is_problem)
    messages = [answer.message for answer in problems_first if answer.message]
    reason = " ".join(messages[:_MAX_MESSAGES]) + (" ..." if len(messages) > _MAX_MESSAGES else "")
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=partitions,
        skip_reason=None if requests else reason or None,
        cursor=cursor,
    )


def _cursor_of(name: str, text: str | None) -> LogCursor | None:
    """Return the cursor of a table. An unreadable one is ignored: no version is requested twice without it."""
    try:
        return None if not text else LogCursor.from_text(text)
    except (TypeError, ValueError) as error:
        _log.warning("The cursor of table %s cannot be read, and is ignored: %s", name, error)
        return None


def _text_of(cursor: LogCursor | None) -> str | None:
    return None if cursor is None else cursor.to_text()


def _cursors_of(text: str | None) -> dict[str, Any]:
    """Return the cursors of a shared sensor by table. If they cannot be read, the sensor starts without cursors."""
    try:
        cursors = json.loads(text or "{}")
        if isinstance(cursors, dict):
            return {name: each if isinstance(each, str | None) else json.dumps(each) for name, each in cursors.items()}
        problem = "it is not an object"
    except ValueError as error:
        problem = str(error)
    _log.warning("The cursor of the sensor cannot be read, and is ignored: %s", problem)
    return {}
