"""What the data version of a table's asset starts downstream, with real runs and Dagster's own evaluation."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.support import DataChange

pytestmark = pytest.mark.spark


class Lake:
    """A table written by `deltalake`, an eager asset downstream of it, and Dagster's evaluation of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.path = folder / "events"
        self.table = TableSettings(name="events", path=str(self.path), **settings)
        self.settings = Settings(storage=str(folder / "store"), tables=(self.table,))
        self.own = build_definitions(self.settings)
        self.key = table_key(self.table)

        @dg.asset(deps=[self.key], automation_condition=dg.AutomationCondition.eager())
        def report() -> None: ...

        self.defs = dg.Definitions.merge(self.own, dg.Definitions([report]))
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: Any = None

    def append(self, value: int = 1) -> None:
        write_deltalake(self.path, pa.table({"id": [value]}), mode="append")

    def optimize(self) -> None:
        """Write the files of the table again, although only the first time makes fewer of them."""
        table = DeltaTable(self.path)
        before = table.version()
        table.optimize.z_order(["id"])
        assert DeltaTable(self.path).version() == before + 1

    def set_property(self, value: int) -> None:
        DeltaTable(self.path).alter.set_table_properties({"delta.checkpointInterval": str(value)})

    def requested(self) -> int:
        """Store the new versions, and return how many runs of the asset downstream Dagster requests."""
        refresh_table(self.own, self.settings, self.table, self.instance, log_level="ERROR")
        return self.evaluated()

    def evaluated(self) -> int:
        result = dg.evaluate_automation_conditions(defs=self.defs, instance=self.instance, cursor=self.cursor)
        self.cursor = result.cursor
        if result.total_requested:
            job = self.defs.resolve_implicit_global_asset_job_def()
            job.execute_in_process(instance=self.instance, asset_selection=[dg.AssetKey("report")])
            assert self.evaluated() == 0  # the daemon evaluates every 30 seconds
        return result.total_requested

    @property
    def last(self) -> dg.AssetObservation:
        found = self.instance.fetch_observations(self.key, limit=1).records[0].asset_observation
        assert found is not None
        return found

    @property
    def known(self) -> DataChange:
        poll = store_of(self.settings).polls.read("events")
        assert poll is not None
        assert poll.data_change is not None
        return poll.data_change

    def shown(self) -> Mapping[str, Any]:
        names = ("latest_version", "data_version")
        return {"tag": self.last.data_version} | {name: self.last.metadata[name].value for name in names}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.slow
def test_eager_asset_runs_once_for_an_append_and_never_for_an_optimize(lake: Lake) -> None:
    lake.evaluated()
    lake.append()
    lake.append(2)
    assert lake.requested() == 1
    assert lake.shown() == {"tag": "1", "latest_version": 1, "data_version": 1}
    lake.optimize()
    assert lake.requested() == 0
    assert lake.shown() == {"tag": "1", "latest_version": 2, "data_version": 1}
    lake.set_property(5)
    lake.optimize()
    assert lake.requested() == 0
    lake.optimize()
    lake.append(3)
    lake.optimize()  # after a downtime, all of them are one range
    assert lake.requested() == 1
    assert lake.shown() == {"tag": "6", "latest_version": 7, "data_version": 6}
    assert (lake.known.version, lake.known.known_to) == (6, 7)


@pytest.mark.slow
def test_range_after_a_downtime_gives_the_same_as_tick_by_tick(tmp_path: Path) -> None:
    one, other = Lake(tmp_path / "one"), Lake(tmp_path / "other")
    for step in ("append", "optimize", "append", "optimize", "optimize"):
        getattr(one, step)()
        getattr(other, step)()
        one.requested()
    other.requested()
    assert one.shown() == other.shown() == {"tag": "2", "latest_version": 4, "data_version": 2}


@pytest.mark.slow
def test_trigger_on_commit_runs_for_every_commit(tmp_path: Path) -> None:
    lake = Lake(tmp_path, trigger_on="commit")
    lake.evaluated()
    lake.append()
    assert lake.requested() == 1
    lake.optimize()
    assert lake.requested() == 1
    assert lake.shown() == {"tag": "1", "latest_version": 1, "data_version": 0}


@pytest.mark.slow
def test_recreated_table_is_new_even_if_its_version_is_the_same(lake: Lake) -> None:
    lake.evaluated()
    lake.append()
    assert lake.requested() == 1
    shutil.rmtree(lake.path)
    lake.append(7)
    assert lake.requested() == 1
    assert (lake.last.data_version or "").startswith("0 of ")
    lake.optimize()
    assert lake.requested() == 0


@pytest.mark.slow
def test_cleaned_up_log_and_pruned_store_keep_the_data_version(lake: Lake) -> None:
    lake.evaluated()
    for _ in range(2):
        lake.append()
    lake.optimize()
    assert lake.requested() == 1
    lake.optimize()
    DeltaTable(lake.path).create_checkpoint()
    for version in range(3):
        (lake.path / "_delta_log" / f"{version:020d}.json").unlink()
    assert lake.requested() == 0
    store_of(lake.settings).prune("events", keep=1, min_age_ms=0)
    lake.optimize()
    assert lake.requested() == 0
    assert lake.shown() == {"tag": "1", "latest_version": 4, "data_version": 1}


@pytest.mark.slow
def test_restored_version_is_new_data(lake: Lake) -> None:
    lake.evaluated()
    lake.append()
    lake.append()
    assert lake.requested() == 1
    DeltaTable(lake.path).restore(0)
    assert lake.requested() == 1


@pytest.mark.slow
def test_table_that_is_followed_from_an_optimize_on_has_the_version_of_its_last_change(tmp_path: Path) -> None:
    lake = Lake(tmp_path, versions="latest")
    lake.append()
    lake.append()
    lake.optimize()
    lake.set_property(7)
    lake.requested()
    assert lake.shown() == {"tag": "1", "latest_version": 3, "data_version": 1}


@pytest.mark.slow
def test_manual_observation_of_an_optimize_triggers_nothing(lake: Lake) -> None:
    lake.evaluated()
    lake.append()
    assert lake.requested() == 1
    lake.optimize()
    job = lake.own.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=lake.instance, asset_selection=[lake.key]).success
    assert lake.evaluated() == 0
    assert lake.shown() == {"tag": "0", "latest_version": 1, "data_version": 0}
