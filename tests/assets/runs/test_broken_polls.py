"""The polls of a table whose log is damaged: an error once, then a problem that is shown before other messages."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.names import CONDITION_TAG, table_key
from deltasnap_core import DeltaSnapError
from deltasnap_core.errors import UnsupportedStoreError
from tests.assets.followed_table import EVENTS, FollowedTable, health, materialize
from tests.assets.runs.sensors_builders import Ticks, failed_run


def test_table_that_stays_broken_is_a_problem_while_it_waits_and_after_each_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FollowedTable(tmp_path / "events")
    broken.write(0, 2)
    broken.damage(0)
    with pytest.raises(DeltaSnapError, match="line 1"):
        broken.poll_log()
    now = time.time()
    for seconds, message in ((0, "events is broken: "), (61, "events is still broken: "), (90, "events is broken: ")):
        monkeypatch.setattr(time, "time", lambda at=now + seconds: at)
        again = broken.poll_log()
        assert (again.is_problem, again.requests) == (True, ())
        assert again.message.startswith(message)


def test_error_of_the_store_is_raised_each_time_though_the_log_has_a_warning(tmp_path: Path) -> None:
    followed = FollowedTable(tmp_path / "events")
    followed.write(0, 2)
    followed.store_versions(range(3))
    (followed.log / "_last_checkpoint").write_text("nope")
    for manifest in followed.storage.glob("**/manifests/*"):
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    for _ in range(2):
        with pytest.raises(UnsupportedStoreError):
            followed.poll_log()
    assert "_last_checkpoint" in health(followed.instance)


def test_faults_are_reported_again_when_all_loadable_versions_are_materialized(tmp_path: Path) -> None:
    broken = FollowedTable(tmp_path / "events")
    broken.write(0, 5)
    broken.checkpoint(5)
    broken.damage(4)
    loadable, instance = [0, 1, 2, 3, 5], broken.instance
    broken.store_versions(loadable)
    materialize(instance, loadable)
    instance.report_runless_asset_event(
        dg.AssetObservation(table_key(EVENTS), tags={CONDITION_TAG: "an-earlier-fault"})
    )
    polled = broken.poll_log()
    assert (polled.requests, polled.is_problem) == ((), True)
    assert polled.message.startswith("All loadable versions of events are materialized. ")
    assert f"{4:020d}.json" in polled.message
    assert f"{4:020d}.json" in health(instance)


def test_failed_versions_of_a_broken_table_wait_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path / "events", last=4, runs_succeed=False)
    ticks.damage(4)
    os.utime(ticks.commit(4), (1, 1))  # before the failure
    assert ticks.tick() == [("0", "3")]
    run_id, now = failed_run(ticks.instance, 0, 3), time.time()
    for minutes in (0, 30, 60):
        monkeypatch.setattr(time, "time", lambda at=now + minutes * 60: at)
        reported = ticks.tick()
        assert f"Run {run_id} of events failed or was canceled." in reported
        assert f"{4:020d}.json" in reported
    monkeypatch.setattr(time, "time", lambda: now + 7_200)
    ticks.write(5, 5)
    ticks.checkpoint(5)
    os.utime(ticks.commit(5), (now, now + 60))
    assert ticks.tick() == [("0", "3"), ("5", "5")]
