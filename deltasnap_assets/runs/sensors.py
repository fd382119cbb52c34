"""The sensors: they poll for new commits and request one run for all new commits of a table.

Each table has its own sensor, which users can see and switch separately. If there are many tables, they share a sensor
that reads their logs in parallel: a tick costs Dagster's daemon more time than reading one log.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

from deltasnap_assets.runs.long_reads import LongRead, LongReads
from deltasnap_assets.runs.table_polls import SensorAnswer, TablePolls
from deltasnap_assets.runs.table_runs import TablesFailedError
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import secrets_hidden, without_secrets
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import ReadThreads, logger_of

MAX_SENSORS = 20
"""Up to this many tables have a sensor each. With more, tables with the same `poll_seconds` share one."""

_DAEMON_ROUND_SECONDS = 5
_POLLS_AT_ONCE = 16
_MAX_MESSAGES = 10
_MAX_TICK_SECONDS = 30
"""Dagster ends a tick after 60 seconds, and its results are lost. No poll of a table is started after this time."""
_MAX_POLL_SECONDS = 15
"""How long a tick waits for the poll that began last. A storage may not respond at all."""
_CHECK_EVERY_SECONDS = 0.5
"""How often a tick compares its running polls with these limits."""
_log = logger_of(__name__)
_NEXT = "@next"
"""The key in a shared sensor's cursor of the table that the next tick starts with. No table has this name."""

_Key = tuple[str, str, str | None]
_long_polls = LongReads[_Key, SensorAnswer | None]()
"""The polls that did not end within their tick, by store, table and cursor."""


class UnfinishedPollError(DeltaSnapError):
    """The poll of a table takes much longer than a tick."""


def minimum_interval(poll_seconds: int) -> int:
    """Return the minimum interval of a sensor, so that it ticks every `poll_seconds`, rounded down to a multiple of 5.

    The daemon checks every five seconds which ticks are due, so values below 5 count as 5. A tick with exactly that
    interval often becomes due just after the check and waits for the next one.
    """
    rounds = poll_seconds // _DAEMON_ROUND_SECONDS
    return rounds * _DAEMON_ROUND_SECONDS - 2 if rounds else poll_seconds


def new_commits_sensors(
    settings: Settings, jobs: Mapping[str, Any], observe_job: Callable[[str, Sequence[TableSettings]], Any]
) -> list[dg.SensorDefinition]:
    """Return the sensors of all tables: `<table>_new_commits`, or `new_commits_every_<seconds>_seconds`.

    jobs: the job of each table that its sensor requests.
    observe_job: returns the job with that name that observes the tables of a sensor. The sensor only targets it.
    """
    if len(settings.tables) <= MAX_SENSORS:
        return [
            new_commits_sensor(settings, table, [jobs[table.name], observe_job(f"{table.name}_observe", [table])])
            for table in settings.tables
        ]
    by_interval: dict[int, list[TableSettings]] = {}
    for table in settings.tables:
        by_interval.setdefault(table.poll_seconds, []).append(table)
    return [
        _shared_sensor(
            settings,
            tables,
            [*(jobs[table.name] for table in tables), observe_job(f"observe_every_{seconds}_seconds", tables)],
            seconds,
        )
        for seconds, tables in sorted(by_interval.items())
    ]


def new_commits_sensor(settings: Settings, table: TableSettings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor `<table>_new_commits`: a tick adds the partitions of new versions and requests their range.

    The cursor is a `SensorState`: the last commit handled, and for a broken table its fault and the time of the next
    poll. While a run of the table is in progress, ticks are skipped: a table has one run at a time on any instance, and
    new commits become one range afterwards, with all versions that are missing. Versions whose run failed are not
    requested again without new commits. For a damaged table, the loadable versions are requested. A fault fails one
    tick and is recorded on the page of the table. Later ticks skip, and poll again after increasing pauses. While the
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
        found, problems = _polled(settings, [table], context.instance, {table.name: context.cursor})
        for problem in problems.values():
            raise problem
        answer = found[table.name] or SensorAnswer(cursor=context.cursor)
        return _result([answer], answer.cursor)

    return new_commits


def _shared_sensor(
    settings: Settings, tables: Sequence[TableSettings], jobs: Sequence[Any], poll_seconds: int
) -> dg.SensorDefinition:
    """Return a sensor like `new_commits_sensor` for many tables.

    Its cursor is an object with the cursor of each table. If some tables fail, the others continue, and the tick fails
    when everything else is recorded. If a tick takes too long, the next one starts where it stopped.
    """
    names = [table.name for table in tables]

    @dg.sensor(
        name=f"new_commits_every_{poll_seconds}_seconds",
        jobs=jobs,
        minimum_interval_seconds=minimum_interval(poll_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Polls the logs of {len(tables)} tables and materializes their new versions.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        cursors = _cursors_of(context.cursor)
        next_name = cursors.pop(_NEXT, None)
        first = names.index(next_name) if next_name in names else 0
        found, problems = _polled(settings, [*tables[first:], *tables[:first]], context.instance, cursors)
        answers = {name: answer for name, answer in found.items() if answer is not None}
        has_requests = any(answer.requests for answer in answers.values())
        before = {name: cursors.get(name) for name in names}
        after = before | {name: answer.cursor for name, answer in answers.items()}
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


@dataclass(slots=True, kw_only=True)
class _Poll:
    """The poll of a table in a tick. Times are monotonic.

    last_start: after this time, it is not started. began: when it was started; inf: not yet.
    """

    polls: TablePolls
    table: TableSettings
    cursor: str | None
    last_start: float
    began: float = math.inf

    @property
    def key(self) -> _Key:
        return self.polls.settings.storage, self.table.name, self.cursor

    def run(self) -> SensorAnswer | None:
        """Return the answer of the table; None: it is too late to start."""
        self.began = time.monotonic()
        return None if self.began >= self.last_start else self.polls.poll(self.table, self.cursor)

    def answer(self, read: LongRead[SensorAnswer | None]) -> SensorAnswer | None:
        """Return the answer from the read that runs this poll; a message if it is still running; None: not started.

        Errors: those of the poll; UnfinishedPollError if it takes minutes.
        """
        if read.future.done():
            _long_polls.end(self.key)
            answer = None if read.future.cancelled() else read.future.result()
            return None if answer is None else self.polls.still_valid(answer, self.table, self.cursor)
        waits = (
            f"The poll of {self.table.name} has been running {read.since_text}: its storage does not respond, or its "
            "log is long. The poll continues, and a later tick uses its result."
        )
        if read.is_overdue:
            raise UnfinishedPollError(waits)
        return SensorAnswer(cursor=self.cursor, message=waits, is_problem=True)


def _polled(
    settings: Settings, turn: Sequence[TableSettings], instance: dg.DagsterInstance, cursors: Mapping[str, str | None]
) -> tuple[dict[str, SensorAnswer | None], dict[str, Exception]]:
    """Return the answer of each table by name, None for those that a tick has no time for, and the errors by name."""
    end, table_polls = time.monotonic() + _MAX_TICK_SECONDS, TablePolls.of(settings, turn, instance)
    polls = [
        _Poll(polls=table_polls, table=table, cursor=cursors.get(table.name), last_start=end if number else math.inf)
        for number, table in enumerate(turn)
    ]
    reads = _in_time(polls)
    found, problems = dict[str, SensorAnswer | None](), dict[str, Exception]()
    for poll in polls:
        name = poll.table.name
        try:
            found[name] = poll.answer(reads[name])
        except Exception as error:  # noqa: BLE001  # for any error, the other tables are read
            problems[name], message = error, f"{name}: {without_secrets(str(error))}"
            found[name] = SensorAnswer(cursor=poll.cursor, message=message, is_problem=True)
    return found, problems


def _in_time(polls: Sequence[_Poll]) -> Mapping[str, LongRead[SensorAnswer | None]]:
    """Run the polls of tables in threads. Return their reads by table, when all are done or the time is up.

    Then the running polls continue, and the others are canceled, before Dagster ends the tick. A poll that an earlier
    tick started is not awaited, and is restarted only after minutes: one table must not delay the others.
    """
    threads = ReadThreads(_POLLS_AT_ONCE)
    awaited = [poll for poll in polls if poll.key not in _long_polls]
    reads = {poll.table.name: _long_polls.of(poll.key, partial(threads.submit, poll.run)) for poll in polls}
    end = time.monotonic() + _MAX_TICK_SECONDS + _MAX_POLL_SECONDS
    while running := [poll for poll in awaited if not reads[poll.table.name].future.done()]:
        left = min(end, max(poll.began for poll in running) + _MAX_POLL_SECONDS) - time.monotonic()
        if left <= 0:
            break
        # Not after each poll: there may be thousands.
        wait([reads[poll.table.name].future for poll in running], timeout=min(left, _CHECK_EVERY_SECONDS))
    threads.cancel()
    return reads


def _result(answers: Sequence[SensorAnswer], cursor: str | None) -> dg.SensorResult:
    requests = [request for answer in answers for request in answer.requests]
    if requests:
        return dg.SensorResult(run_requests=requests, cursor=cursor)
    problems_first = sorted(answers, key=lambda answer: not answer.is_problem)
    messages = [answer.message for answer in problems_first if answer.message]
    reason = " ".join(messages[:_MAX_MESSAGES]) + (" ..." if len(messages) > _MAX_MESSAGES else "")
    return dg.SensorResult(run_requests=[], skip_reason=reason or None, cursor=cursor)


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
