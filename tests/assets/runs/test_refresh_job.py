"""The job that refreshes all tables, with the refresh of each table replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs import refresh_job
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.errors import StorageError
from deltasnap_core.replay.sessions import GivenSession


def test_job_refreshes_all_tables_and_then_fails_with_the_error_of_each_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def refresh(defs: Any, _: Settings, table: TableSettings, *__: object, **___: object) -> tuple[int, ...]:
        asked.append((defs, table.name))
        if table.name == "two":
            raise StorageError(path="s3://me:hunter2@lake/two", reason="timeout")
        return (0, 1)

    monkeypatch.setattr(refresh_job, "refresh_table", refresh)
    tables = tuple(TableSettings(name=name, path=str(tmp_path / name)) for name in ("one", "two", "three"))
    settings, defs = Settings(storage=str(tmp_path / "store"), tables=tables), dg.Definitions()
    instance = dg.DagsterInstance.ephemeral()
    job = refresh_job.refresh_job(settings, lambda: defs, GivenSession(None))
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert asked == [(defs, "one"), (defs, "two"), (defs, "three")]
    (failure,) = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert {"one: 2 versions materialized", "three: 2 versions materialized"} <= {*messages}
    (problem,) = [message for message in messages if message.startswith("two: ")]
    assert "timeout" in problem
    assert "1 table failed. two: " in str(failure)
    assert "hunter2" not in f"{failure} {messages}"
    settings = settings.model_copy(update={"tables": (tables[0],)})
    assert (
        refresh_job.refresh_job(settings, lambda: defs, GivenSession(None))
        .execute_in_process(instance=instance)
        .success
    )
