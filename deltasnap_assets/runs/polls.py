"""Polls tables in threads: a tick must end within a minute, and one table must not delay the others.

A poll that takes longer continues, and a later tick of the sensor uses its answer. The schedule polls again: what the
poll found is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial

import dagster as dg

from deltasnap_assets.runs.apply import Answer, answer_of
from deltasnap_assets.runs.memory import POLLS, LongRead, key_of_table
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.table_runs import TableRuns
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.texts import without_secrets
from deltasnap_core import DeltaSnapError, LogCursor
from deltasnap_core.support import ReadThreads

_AT_ONCE = 16
_MAX_SECONDS = 40
"""How long a tick waits for polls. Dagster ends a tick after 60 seconds, and its results are lost."""


def polled(
    settings: Settings,
    tables: Sequence[TableSettings],
    instance: dg.DagsterInstance,
    asked: Asked,
    cursors: Mapping[str, LogCursor | None],
) -> tuple[dict[str, Answer | None], dict[str, Exception]]:
    """Return the answer of each table by name, None for those that a tick has no time for, and the errors by name.

    cursors: of the sensor, by table. The instance is queried once for the runs of all tables. A poll that an earlier
    tick started is not awaited.
    """
    threads, runs = ReadThreads(_AT_ONCE), TableRuns.of(instance, tables)
    reads, awaited = list[tuple[Seen, LongRead]](), list[Future[Answer]]()
    for table in tables:
        name = table.name
        seen = Seen(
            settings=settings, table=table, instance=instance, asked=asked, cursor=cursors.get(name), runs=runs[name]
        )
        read = POLLS.get(_key_of(seen))
        is_late = asked is Asked.SCHEDULE and read is not None and read.future.done()  # its answer is hours old
        if read is None or read.is_lost or is_late:
            read = POLLS[_key_of(seen)] = LongRead(threads.submit(partial(_answer_of, seen)), time.time())
            awaited.append(read.future)
        reads.append((seen, read))
    wait(awaited, timeout=_MAX_SECONDS)
    threads.cancel()
    found, problems = dict[str, Answer | None](), dict[str, Exception]()
    for seen, read in reads:
        name = seen.table.name
        try:
            found[name] = _result_of(seen, read)
        except Exception as error:  # noqa: BLE001  # for any error, the other tables are read
            problems[name], message = error, f"{name}: {without_secrets(str(error))}"
            found[name] = Answer(table=name, cursor=seen.cursor, message=message, is_problem=True)
    return found, problems


def _key_of(seen: Seen) -> tuple[object, ...]:
    return key_of_table(seen.settings, seen.table), seen.asked, seen.cursor


def _answer_of(seen: Seen) -> Answer:
    return answer_of(seen)[0]


def _result_of(seen: Seen, read: LongRead) -> Answer | None:
    """Return the answer of a poll; a message if it is still running; None: there was no time to start it.

    The answer of a poll that an earlier tick began counts, unless it requests runs and a run has begun meanwhile.
    Errors: those of the poll; DeltaSnapError if it takes minutes.
    """
    if read.future.done():
        POLLS.pop(_key_of(seen), None)
        if read.future.cancelled():
            return None
        answer: Answer = read.future.result()
        return _answer_of(seen) if answer.requests and seen.runs.active is not None else answer
    waits = (
        f"The poll of {seen.table.name} has been running {read.since_text}: its storage does not respond, or its log "
        "is long. The poll continues, and a later tick uses its result."
    )
    if read.is_overdue:
        raise DeltaSnapError(waits)
    return Answer(table=seen.table.name, cursor=seen.cursor, message=waits, is_problem=True)
