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

from deltasnap_assets.runs.apply import Answer, answer_of
from deltasnap_assets.runs.memory import POLLS, Key, LongRead, key_of_table
from deltasnap_assets.runs.observe import Asked, Seen, TableRuns
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.table_runs import TablesFailedError, UnfinishedRuns, failed_lately
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
                *_observed(observe_job, f"observe_every_{seconds}_seconds", tables),
            ],
            seconds,
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
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
        description=f"Polls the log of {table.name} and materializes its new versions.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found, problems = _polled(settings, [table], context.instance, {table.name: context.cursor})
        for problem in problems.values():
            raise problem
        answer = found[table.name]
        return _result([] if answer is None else [answer], context.cursor if answer is None else answer.state.to_text())

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
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
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
        after = before | {name: answer.state.to_text() for name, answer in answers.items()}
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

    seen: Seen
    last_start: float
    began: float = math.inf

    @property
    def name(self) -> str:
        return self.seen.table.name

    @property
    def key(self) -> tuple[Key, SensorState]:
        return key_of_table(self.seen.settings, self.seen.table), self.seen.state

    def run(self) -> Answer | None:
        """Return the answer of the table; None: it is too late to start."""
        self.began = time.monotonic()
        return None if self.began >= self.last_start else answer_of(self.seen)[0]

    def answer(self, read: LongRead[Answer | None]) -> Answer | None:
        """Return the answer from the read that runs this poll; a message if it is still running; None: not started.

        The answer of a poll that an earlier tick began counts, unless it requests runs and a run has begun meanwhile.
        Errors: those of the poll; UnfinishedPollError if it takes minutes.
        """
        if read.future.done():
            POLLS.end(self.key)
            answer = None if read.future.cancelled() else read.future.result()
            is_over = answer is None or not answer.requests or self.seen.runs.active is None
            return answer if is_over else answer_of(self.seen)[0]
        waits = (
            f"The poll of {self.name} has been running {read.since_text}: its storage does not respond, or its "
            "log is long. The poll continues, and a later tick uses its result."
        )
        if read.is_overdue:
            raise UnfinishedPollError(waits)
        return Answer(table=self.name, state=self.seen.state, message=waits, is_problem=True)


def _polled(
    settings: Settings, turn: Sequence[TableSettings], instance: dg.DagsterInstance, cursors: Mapping[str, str | None]
) -> tuple[dict[str, Answer | None], dict[str, Exception]]:
    """Return the answer of each table by name, None for those that a tick has no time for, and the errors by name.

    The instance is queried once for the runs of all tables.
    """
    end = time.monotonic() + _MAX_TICK_SECONDS
    unfinished, failed = UnfinishedRuns.of(instance, turn), failed_lately(instance, turn)
    polls = list[_Poll]()
    for table in turn:
        name = table.name
        runs = TableRuns(
            active=unfinished.active.get(name), silent=unfinished.silent.get(name, ()), failed=failed.get(name)
        )
        state = _state(table, cursors.get(name))
        seen = Seen(settings=settings, table=table, instance=instance, asked=Asked.TICK, state=state, runs=runs)
        polls.append(_Poll(seen=seen, last_start=end if polls else math.inf))
    reads = _in_time(polls)
    found, problems = dict[str, Answer | None](), dict[str, Exception]()
    for poll in polls:
        try:
            found[poll.name] = poll.answer(reads[poll.name])
        except Exception as error:  # noqa: BLE001  # for any error, the other tables are read
            problems[poll.name], message = error, f"{poll.name}: {without_secrets(str(error))}"
            found[poll.name] = Answer(table=poll.name, state=poll.seen.state, message=message, is_problem=True)
    return found, problems


def _in_time(polls: Sequence[_Poll]) -> Mapping[str, LongRead[Answer | None]]:
    """Run the polls of tables in threads. Return their reads by table, when all are done or the time is up.

    Then the running polls continue, and the others are canceled, before Dagster ends the tick. A poll that an earlier
    tick started is not awaited, and is restarted only after minutes: one table must not delay the others.
    """
    threads = ReadThreads(_POLLS_AT_ONCE)
    awaited = [poll for poll in polls if poll.key not in POLLS]
    reads = {poll.name: POLLS.of(poll.key, partial(threads.submit, poll.run)) for poll in polls}
    end = time.monotonic() + _MAX_TICK_SECONDS + _MAX_POLL_SECONDS
    while running := [poll for poll in awaited if not reads[poll.name].future.done()]:
        left = min(end, max(poll.began for poll in running) + _MAX_POLL_SECONDS) - time.monotonic()
        if left <= 0:
            break
        # Not after each poll: there may be thousands.
        wait([reads[poll.name].future for poll in running], timeout=min(left, _CHECK_EVERY_SECONDS))
    threads.cancel()
    return reads


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


def _state(table: TableSettings, cursor: str | None) -> SensorState:
    """Return the state of a table. An unreadable one is ignored: no version is requested twice without it."""
    try:
        return SensorState.from_text(cursor)
    except (TypeError, ValueError) as error:
        _log.warning("The cursor of table %s cannot be read, and is ignored: %s", table.name, error)
        return SensorState()


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
