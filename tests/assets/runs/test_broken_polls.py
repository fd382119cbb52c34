"""The polls of a table whose log is damaged: an error once, then a problem that is shown before other messages."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.names import ASSET_NAMES, CONDITION_TAG, delta_log_key
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.runs.table_polls import TablePolls
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError
from tests.assets.runs.test_sensors import write
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint
from tests.core.store.manifests import store_versions, stored_table


def test_table_that_stays_broken_is_a_problem_while_it_waits_and_after_each_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSettings(name="events", path=str(tmp_path / "events"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    write(tmp_path / "events", 0, 2)
    (tmp_path / "events" / "_delta_log" / f"{0:020d}.json").write_bytes(b"{no json")
    instance = dg.DagsterInstance.ephemeral()
    with pytest.raises(DeltaSnapError, match="line 1"):
        TablePolls.of(settings, [table], instance).poll(table, None)
    again = TablePolls.of(settings, [table], instance).poll(table, None)
    assert (again.is_problem, again.requests) == (True, ())
    assert again.message.startswith("events is still broken: ")
    waiting = TablePolls.of(settings, [table], instance).poll(table, again.cursor)
    assert (waiting.is_problem, waiting.cursor) == (True, again.cursor)
    assert waiting.message.startswith("events is broken: ")
    later = SensorState.from_text(again.cursor).next_poll + 1
    monkeypatch.setattr(time, "time", lambda: later)
    after = TablePolls.of(settings, [table], instance).poll(table, again.cursor)
    assert (after.is_problem, SensorState.from_text(after.cursor).polls) == (True, 2)


def test_faults_are_reported_again_when_all_loadable_versions_are_materialized(tmp_path: Path) -> None:
    table = TableSettings(name="events", path=str(tmp_path / "events"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    write(tmp_path / "events", 0, 5)
    actions = [protocol(), metadata(), *(add(f"{version}.parquet") for version in range(6))]
    log = write_checkpoint(tmp_path / "events" / "_delta_log", 5, "classic", actions)[0].parent
    (log / f"{4:020d}.json").write_bytes(b"{no json")
    loadable = [0, 1, 2, 3, 5]
    store_versions(stored_table(tmp_path / "store"), log_of(table), loadable)
    instance = dg.DagsterInstance.ephemeral()
    for version in loadable:
        for name in ASSET_NAMES:
            key = dg.AssetKey(["events", name])
            instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=str(version)))
    instance.report_runless_asset_event(
        dg.AssetObservation(delta_log_key("events"), tags={CONDITION_TAG: "an-earlier-fault"})
    )
    polled = TablePolls.of(settings, [table], instance).poll(table, None)
    assert (polled.requests, polled.is_problem) == ((), True)
    assert polled.message.startswith("All loadable versions of events are materialized. ")
    assert f"{4:020d}.json" in polled.message
    (page,) = instance.fetch_observations(delta_log_key("events"), limit=1).records
    assert page.asset_observation is not None
    assert f"{4:020d}.json" in str(page.asset_observation.metadata["health"].value)
