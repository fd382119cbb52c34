"""Checks of a table that are switched off, or have another severity, or block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import CHECKS, checks_of
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.support import system_clock
from tests.assets.tables.checks.checks_alone_builders import stored

OFF: dict[str, Any] = {"enabled": False}


def test_check_that_is_switched_off_is_not_defined() -> None:
    names = [check.name for check in checks_of(CheckSettings(), CHECKS)]
    for name in names:
        table = TableSettings.model_validate({"name": "t", "path": "/t", "checks": {name: OFF}})
        defs = build_definitions(Settings(storage="/s", tables=(table,)))
        found = {key.name for key in defs.resolve_asset_graph().asset_check_keys}
        assert found == {*names} - {name}
    table = TableSettings.model_validate({"name": "t", "path": "/t", "checks": dict.fromkeys(names, OFF)})
    defs = build_definitions(Settings(storage="/s", tables=(table,)))
    dg.Definitions.validate_loadable(defs)
    assert defs.resolve_asset_graph().asset_check_keys == set()


def test_any_check_can_block() -> None:
    """Dagster evaluates a blocking check before the assets downstream. No step may wait for itself."""
    options = {check.name: {"blocking": True} for check in CHECKS}
    table = TableSettings.model_validate({"name": "t", "path": "/t", "checks": options})
    defs = build_definitions(Settings(storage="/s", tables=(table,)))
    dg.Definitions.validate_loadable(defs)
    specs = [spec for each in defs.asset_checks or () for spec in each.check_specs]
    assert {spec.name for spec in specs if spec.blocking} == {check.name for check in CHECKS}
    assert defs.resolve_job_def("t_snapshots").name == "t_snapshots"


@pytest.mark.parametrize(
    ("options", "severity", "level"),
    [({}, "WARN", "warned"), ({"severity": "error"}, "ERROR", "broken"), ({"severity": "warn"}, "WARN", "warned")],
)
def test_severity_of_a_check_counts_in_dagster_and_in_the_fleet(
    options: dict[str, Any], severity: str, level: str, tmp_path: Path
) -> None:
    table = stored(tmp_path)
    table.configure(checks={"max_commits_since_checkpoint": 1, "checkpoint_lag": options})
    result = table.check("checkpoint_lag")
    assert (result.passed, result.severity.value) == (False, severity)
    (problem,) = [each for each in table.poll.problems if each.check == "checkpoint_lag"]
    assert problem.mark == ("error" if severity == "ERROR" else "warning")
    status = store_of(table.settings).polls.statuses(["events"], system_clock(), {"events": table.table.path})["events"]
    assert status is not None
    assert status.level.value == level


@pytest.mark.spark
@pytest.mark.slow
def test_table_with_one_small_file_in_each_partition_can_be_healthy(tmp_path: Path) -> None:
    rows = pa.table({"day": [f"2026-03-{day:02}" for day in range(1, 29)], "id": range(28)})
    write_deltalake(tmp_path / "events", rows, partition_by=["day"])
    instance, levels, healths = dg.DagsterInstance.ephemeral(), [], []
    for checks in ({}, {"small_files": OFF}):
        table = TableSettings.model_validate({"name": "events", "path": str(tmp_path / "events"), "checks": checks})
        settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
        refresh_table(build_definitions(settings), settings, table, instance, log_level="ERROR")
        levels.append(store_of(settings).fleet(["events"]).to_pylist()[0]["condition"])
        page = instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=1).records[0].asset_observation
        assert page is not None
        healths.append(str(page.metadata["health"].value)[:3])
    assert levels == ["warned", "healthy"]
    assert healths == ["28 ", "OK:"]


@pytest.mark.spark
@pytest.mark.slow
def test_blocking_check_keeps_the_assets_downstream_from_running(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "events", pa.table({"id": [1]}))
    write_deltalake(tmp_path / "events", pa.table({"id": [1]}), mode="append")
    limits = {"max_commits_since_checkpoint": 1, "checkpoint_lag": {"severity": "error", "blocking": True}}
    table = TableSettings.model_validate({"name": "events", "path": str(tmp_path / "events"), "checks": limits})
    defs = build_definitions(Settings(storage=str(tmp_path / "store"), tables=(table,)))
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("events_versions", ["1"])
    job = defs.resolve_job_def("events_snapshots")
    result = job.execute_in_process(instance=instance, partition_key="1", raise_on_error=False)
    done = {event.asset_key.path[-1] for event in result.get_asset_materialization_events() if event.asset_key}
    assert (result.success, done) == (False, {"log_segment"})
