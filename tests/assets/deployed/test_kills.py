"""Runs under `dagster dev` that are killed at random moments: alone, or with the whole deployment.

DELTASNAP_KILLS sets the number of moments, DELTASNAP_KILLS_SEED selects them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
pytest.importorskip("deltalake")

from deltasnap_assets.definitions import build_definitions  # noqa: E402
from deltasnap_assets.runs.sensors import new_commits_sensor  # noqa: E402
from deltasnap_assets.settings.loading import load_settings  # noqa: E402
from deltasnap_assets.settings.table_settings import ASSET_NAMES  # noqa: E402
from tests.assets.deployed.dagster_dev import DagsterDev  # noqa: E402
from tests.assets.jobs import idle_job, ticked  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = 4
KILLS = int(os.environ.get("DELTASNAP_KILLS", "2"))
SEED = int(os.environ.get("DELTASNAP_KILLS_SEED", "0"))
LONG_AFTER_SECONDS = 11 * 60
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, dict[int, tuple[int, int]]]:
    """How long the process of a run lives in seconds, and what the run stores."""
    dev = DagsterDev(tmp_path_factory.mktemp("unharmed"))
    dev.commit(VERSIONS)
    with dev.running():
        run = dev.wait_for(lambda: next(iter(dev.requested()), None))
        dev.process_of(run.run_id)
        began = time.monotonic()
        assert dev.ended(run.run_id).is_success, dev.texts(run.run_id)
        return time.monotonic() - began, dev.stored()


@pytest.mark.parametrize("number", range(KILLS))
def test_tick_requests_what_a_killed_run_left_after_ten_minutes(
    number: int,
    unharmed: tuple[float, dict[int, tuple[int, int]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    seconds, expected = unharmed
    # One moment in each part of the run, so that a few moments cover it.
    moment = seconds * (number + random.Random(SEED + number).random()) / KILLS
    dev = DagsterDev(tmp_path)
    dev.commit(VERSIONS)
    with dev.running():
        run = dev.wait_for(lambda: next(iter(dev.requested()), None))
        process = dev.process_of(run.run_id)
        time.sleep(moment)
        if number % 2:
            dev.kill()
        else:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            ticks = dev.ticks()
            dev.wait_for(lambda: dev.ticks() >= ticks + 2)
    assert len(dev.requested()) == 1
    settings = load_settings(folder=tmp_path, environment={})
    sensor = new_commits_sensor(settings, settings.tables[0], [idle_job])
    job = build_definitions(settings).resolve_job_def("events_snapshots")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LONG_AFTER_SECONDS)
    requests = ticked(sensor, dev.instance).run_requests or ()
    for request in requests:
        assert job.execute_in_process(instance=dev.instance, tags=request.tags, run_config=QUIET).success
    assert dev.stored() == expected, f"killed after {moment:.2f} s"
    keys = {str(version) for version in range(VERSIONS)}
    done = {name: dev.instance.get_materialized_partitions(dg.AssetKey(["events", name])) for name in ASSET_NAMES}
    assert done == dict.fromkeys(ASSET_NAMES, keys), f"killed after {moment:.2f} s"
    assert not ticked(sensor, dev.instance).run_requests
