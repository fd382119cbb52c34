"""Examines logs for faults when no run does, and while ticks continue: a long log takes longer than a tick may."""

from __future__ import annotations

from concurrent.futures import wait
from functools import partial

import dagster as dg

from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_reports import condition_now
from deltasnap_assets.runs.condition.poll_records import record_poll, record_unreadable
from deltasnap_assets.runs.due import Examination, examination_without_run
from deltasnap_assets.runs.long_reads import LongRead, LongReads
from deltasnap_assets.runs.planning.known_table import was_broken
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.runs.table_runs import failed_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import LogStatus, TableCondition
from deltasnap_core.support import ReadThreads, system_clock

_AT_ONCE = 16
_WAIT_SECONDS = 5.0
"""How long a tick waits for an examination that it starts. Most logs are short."""

_Key = tuple[str, str]
_examinations = LongReads[_Key, TableCondition]()


def has_examination(settings: Settings, table: TableSettings) -> bool:
    """Return whether an examination of a table is in progress, or its result was not used yet."""
    return _key(settings, table) in _examinations


def may_examine() -> bool:
    """Return whether few enough examinations are in progress to start another one."""
    return _examinations.num_running < _AT_ONCE


def examination_of(settings: Settings, table: TableSettings, examination: Examination) -> LongRead[TableCondition]:
    """Return the examination of a table, a run of `condition_now`. Start it if there is none.

    The caller must use the result of an ended examination now: the next call starts another one.
    """
    key = _key(settings, table)
    seconds = 0.0 if key in _examinations else _WAIT_SECONDS
    read = partial(condition_now, settings, table, examination)
    found = _examinations.of(key, lambda: ReadThreads(1).submit(read))
    wait([found.future], timeout=seconds)
    if found.future.done():
        _examinations.end(key)
    return found


def report_condition_without_run(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    status: LogStatus,
    stored: Stored,
    *,
    is_brief: bool = False,
    is_requested: bool = False,
) -> TableCondition | None:
    """Record the faults of a table, or that they are gone, when no run will do so. Return its condition.

    None: the log is not examined, see `examination_without_run`, or that takes too long.
    status: the result of the poll without new commits.
    is_brief: wait only a few seconds for the examination. A later tick uses its result.
    is_requested: a user waits for the answer.
    """
    record_poll(settings, table, status)
    record_unreadable(settings, table, stored)
    failed = failed_run(instance, table.name)
    examination = examination_without_run(
        store_of(settings).polls.read(table.name),
        system_clock(),
        status,
        stored,
        is_suspect=failed is not None or was_broken(instance, table.name),
        is_requested=is_requested,
    )
    if examination is None:
        return None
    examine = _condition_soon if is_brief else condition_now
    condition = examine(settings, table, examination)
    if condition is not None:
        report_condition(instance, settings, table, condition, failed)
    return condition


def _condition_soon(settings: Settings, table: TableSettings, examination: Examination) -> TableCondition | None:
    """Return the condition of a table, after a few seconds at most; None: a later tick uses the examination."""
    found = examination_of(settings, table, examination)
    return found.future.result() if found.future.done() else None


def _key(settings: Settings, table: TableSettings) -> _Key:
    return settings.storage, table.name
