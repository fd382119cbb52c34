"""Examines logs for faults while ticks continue: a long log takes longer than a tick may."""

from __future__ import annotations

from concurrent.futures import wait
from functools import partial

from deltasnap_assets.runs.condition.log_reports import condition_now
from deltasnap_assets.runs.due import Examination
from deltasnap_assets.runs.memory import EXAMINATIONS, LongRead, key_of_table
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import TableCondition
from deltasnap_core.support import ReadThreads

_AT_ONCE = 16
_WAIT_SECONDS = 5.0
"""How long a tick waits for an examination that it starts. Most logs are short."""


def may_examine() -> bool:
    """Return whether few enough examinations are in progress to start another one."""
    return EXAMINATIONS.num_running < _AT_ONCE


def examination_of(settings: Settings, table: TableSettings, examination: Examination) -> LongRead[TableCondition]:
    """Return the examination of a table, a run of `condition_now`. Start it if there is none.

    The caller must use the result of an ended examination now: the next call starts another one.
    """
    key = key_of_table(settings, table)
    seconds = 0.0 if key in EXAMINATIONS else _WAIT_SECONDS
    read = partial(condition_now, settings, table, examination)
    found = EXAMINATIONS.of(key, lambda: ReadThreads(1).submit(read))
    wait([found.future], timeout=seconds)
    if found.future.done():
        EXAMINATIONS.end(key)
    return found
