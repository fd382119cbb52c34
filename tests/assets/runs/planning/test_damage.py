"""Damaged logs and failed runs: which versions are requested, and which run counts as the last one."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.log_status import read_status, stored_state
from deltasnap_assets.runs.planning.names import CONDITION_TAG, table_key
from deltasnap_assets.runs.table_runs import failed_run as last_failed_run
from deltasnap_assets.settings.table_settings import TABLE_TAG
from tests.assets.followed_table import EVENTS
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks, failed_run
from tests.builders import add, write_log


@pytest.mark.slow
def test_damage_before_a_checkpoint_blocks_only_its_versions(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=5)
    ticks.checkpoint(5)
    ticks.damage(3)
    ticks.store_versions([0, 1, 2, 5])
    ticks.write(6, 7)
    status, _ = read_status(ticks.settings, ticks.table, examine=True)
    assert status.versions == (0, 1, 2, 5, 6, 7)
    assert status.condition is not None
    assert status.condition.unloadable == (3, 4)
    ticks.instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), tags={CONDITION_TAG: "a-fault"}))
    assert ticks.tick() == [("0", "2"), ("5", "7")]


def test_stored_state_of_a_version_after_a_fork_does_not_count(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "t", last=2)
    ticks.store_versions(range(3), computed=True)
    write_log(tmp_path / "t", {2: [add("another")]})
    _, stored = read_status(ticks.settings, ticks.table)
    states = [stored_state(ticks.settings, ticks.table, stored, version) for version in range(3)]
    assert [state and state.num_of_files for state in states] == [1, 2, None]


def test_failed_run_stays_the_last_one_when_the_store_is_pruned(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path)
    run_id = failed_run(ticks.instance, 0, 3)
    prune = ticks.instance.create_run_for_job(idle_job, tags={TABLE_TAG: "events"})
    ticks.instance.report_run_failed(prune, "No access")
    ticks.instance.create_run_for_job(idle_job, tags={TABLE_TAG: "events"}, status=dg.DagsterRunStatus.SUCCESS)
    found = last_failed_run(ticks.instance, EVENTS)
    assert found is not None
    assert found.where.name == run_id
