"""How long from the request for a run of one new version to its success, and where does the time go?

As in use: Dagster's daemon with the sensor, the run queue and the default launcher, a worker process for each run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from benchmarks.bench import Bench, GrowingTable
from benchmarks.measure import Finding, Samples
from benchmarks.processes import caches_in, connect_server
from benchmarks.timeline import Timeline, median_stages, timeline
from deltasnap_assets.command.local_instance import DAGSTER_YAML
from deltasnap_assets.runs.plan import RANGE_END_TAG
from deltasnap_assets.settings.config import CONFIG_VARIABLE
from deltasnap_assets.spark.warm_up import make_archive

_TABLE = "bench"
_RUN_SECONDS = 600


class RunFailedError(RuntimeError):
    """The run did not succeed, or not in time."""


def run(bench: Bench) -> list[Finding]:
    """With a Spark session of each run's own, after `deltasnap warm-up`."""
    with caches_in(bench.scratch("caches")):
        make_archive()
        settings = bench.spark_settings.model_dump(exclude_none=True)
        return _runs(bench, "One new version, run request to success, embedded", settings)


def run_connect(bench: Bench) -> list[Finding]:
    """With a warm Spark Connect server."""
    with connect_server(bench.scratch("connect"), bench.cores) as remote:
        return _runs(bench, "One new version, run request to success, Spark Connect", {"remote": remote})


def _runs(bench: Bench, question: str, spark: dict[str, Any]) -> list[Finding]:
    """The first run stores the version there is; each later one the single version that is new."""
    folder, first = bench.scratch("dagster"), bench.shape.base_version
    rounds = min(bench.repeat, bench.commits)
    table = bench.growing_table(bench.shape, first)
    settings = {"name": _TABLE, "path": str(table.folder), "versions": "latest", "poll_seconds": 1, "refresh": None}
    config = folder / "deltasnap.yaml"
    config.write_text(yaml.safe_dump({"storage": str(folder / "store"), "spark": spark, "tables": [settings]}))
    with _daemon(folder, config) as instance:
        lines = [_one_run(bench, instance, table, version) for version in range(first, first + rounds + 1)][1:]
    return [
        Finding(
            question=question,
            ours=Samples(tuple(line.seconds for line in lines)),
            parts=median_stages(lines),
            note="with the sensor, the run queue and the default launcher",
        )
    ]


@contextmanager
def _daemon(folder: Path, config: Path) -> Iterator[dg.DagsterInstance]:
    """Dagster's daemon on an instance of its own; it is stopped with all its runs."""
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(DAGSTER_YAML)
    environment = os.environ | {"DAGSTER_HOME": str(home), CONFIG_VARIABLE: str(config)}
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-m", "deltasnap_assets.definitions"]
    with (folder / "daemon.log").open("wb") as log, dg.DagsterInstance.from_config(str(home)) as instance:
        daemon = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield instance
        finally:
            daemon.send_signal(signal.SIGINT)
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)


def _one_run(bench: Bench, instance: dg.DagsterInstance, table: GrowingTable, version: int) -> Timeline:
    bench.report(f"a run for version {version}")
    table.grow(version)
    filters = dg.RunsFilter(tags={RANGE_END_TAG: str(version)})
    for _ in range(_RUN_SECONDS * 2):
        for record in instance.get_run_records(filters, limit=1):
            if record.dagster_run.is_success:
                return timeline(instance, record.dagster_run.run_id, record.create_timestamp.timestamp())
            if record.dagster_run.is_finished:
                raise RunFailedError(f"the run for version {version} ended as {record.dagster_run.status.value}")
        time.sleep(0.5)
    raise RunFailedError(f"no run for version {version} has succeeded after {_RUN_SECONDS} s")
