"""Examinations of logs that take longer than a tick."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from deltasnap_assets.runs import memory
from deltasnap_assets.runs.condition import log_conditions
from deltasnap_assets.runs.condition.log_conditions import examination_of
from deltasnap_assets.runs.due import Examination
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import TableCondition


def test_table_does_not_wait_for_the_examination_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clicks, events = (TableSettings(name=name, path=f"/lake/{name}") for name in ("clicks", "events"))
    settings, is_answered = Settings(storage=str(tmp_path), tables=(clicks, events)), Event()

    def condition_now(_: Settings, table: TableSettings, *__: Any) -> TableCondition:
        if table is clicks:
            is_answered.wait(60)
        return TableCondition(table=table.name)

    monkeypatch.setattr(log_conditions, "condition_now", condition_now)
    monkeypatch.setattr(log_conditions, "_WAIT_SECONDS", 0.01)
    first = examination_of(settings, clicks, Examination.NEW_CHECKPOINT)
    assert examination_of(settings, events, Examination.NEW_CHECKPOINT).future.result(60).table == "events"
    assert memory.key_of_table(settings, clicks) in memory.EXAMINATIONS
    is_answered.set()
    assert first.future.result(60).table == "clicks"
    examination_of(settings, clicks, Examination.NEW_CHECKPOINT)
    assert memory.key_of_table(settings, clicks) not in memory.EXAMINATIONS
