"""Reads whole logs for faults while ticks continue, because reading a long log takes longer than a tick may."""

from __future__ import annotations

from concurrent.futures import wait
from functools import partial

from deltasnap_assets.runs.condition.log_reports import condition_now
from deltasnap_assets.runs.due import Examination
from deltasnap_assets.runs.long_reads import LongRead, LongReads, in_thread
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import TableCondition

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
    found = _examinations.of(key, lambda: in_thread(partial(condition_now, settings, table, examination)))
    wait([found.future], timeout=seconds)
    if found.future.done():
        _examinations.end(key)
    return found


def condition_soon(settings: Settings, table: TableSettings, examination: Examination) -> TableCondition | None:
    """Return the condition of a table, after a few seconds at most; None: a later tick uses the examination."""
    found = examination_of(settings, table, examination)
    return found.future.result() if found.future.done() else None


def _key(settings: Settings, table: TableSettings) -> _Key:
    return settings.storage, table.name
