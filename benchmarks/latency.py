"""How long does it take from a commit until its five assets are materialized, and how long does each part take?

It uses `deltasnap ui`, which starts Dagster's daemon, code server and web server. Commits arrive at random times
between two ticks.
"""

from __future__ import annotations

import os
import random
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
from benchmarks.measure import Aim, Finding, Samples
from benchmarks.processes import free_port
from benchmarks.timeline import Timeline, median_parts, timeline
from deltasnap_assets.command.local.local_instance import DEFAULT_HOME
from deltasnap_assets.runs.planning.names import RANGE_END_TAG

_TABLE = "bench"
_POLL_SECONDS = 5
_RUN_SECONDS = 600
_WARM_UPS = 2
_SEED = 20261121
_STEPS_AIM = 2.5
"""The maximum seconds from the start of the first step to the end of a run, which is a new process."""
_WARM_AIMS = {10_000: 2.6, 200_000: 5.0, 1_000_000: 8.0}
"""The maximum seconds on a warm server, by the most files of the table."""


class RunFailedError(RuntimeError):
    """The run failed or timed out."""


def run(bench: Bench) -> list[Finding]:
    """Measure `deltasnap ui` with default settings: a run that needs Spark starts a session."""
    return _latency(bench, "by default", {}, at_most=11)


def run_connect(bench: Bench) -> list[Finding]:
    """Measure with the Spark Connect server of `--remote`."""
    return _latency(bench, "warm server", {"spark": {"remote": bench.remote}}, at_most=_warm_aim(bench))


def _warm_aim(bench: Bench) -> float:
    return next((aim for files, aim in _WARM_AIMS.items() if bench.shape.files <= files), max(_WARM_AIMS.values()))


def _latency(bench: Bench, how: str, settings: dict[str, Any], at_most: float) -> list[Finding]:
    """Run once to store the existing version, then measure runs of one new version each."""
    folder, first = bench.scratch("latency"), bench.shape.base_version
    table = bench.growing_table(bench.shape, first)
    followed = {"name": _TABLE, "path": str(table.folder), "versions": "latest", "poll_seconds": _POLL_SECONDS}
    config = {"storage": str(folder / "store"), "tables": [{**followed, "refresh": None}], **settings}
    (folder / "deltasnap.yaml").write_text(yaml.safe_dump(config))
    rounds = min(bench.repeat, bench.commits - _WARM_UPS)
    moments = random.Random(_SEED)
    with _user_interface(folder) as instance:
        committed = [_one_commit(bench, instance, table, first + n, moments) for n in range(_WARM_UPS + rounds + 1)]
    lines = committed[_WARM_UPS + 1 :]
    return [
        Finding(
            question=f"From a commit until its five assets are materialized, {how}",
            ours=Samples(tuple(line.seconds for line in lines)),
            aim=Aim(at_most=at_most, is_ratio=False),
            parts=median_parts(lines),
            note=f"a table of {bench.files:,} files, poll_seconds: {_POLL_SECONDS}",
        ),
        Finding(
            question=f"The same, from the start of the first step to the end of the run, {how}",
            ours=Samples(tuple(line.steps for line in lines)),
            aim=Aim(at_most=_STEPS_AIM, is_ratio=False),
        ),
    ]


@contextmanager
def _user_interface(folder: Path) -> Iterator[dg.DagsterInstance]:
    """Run `deltasnap ui` in a folder. Stops it and all its runs at the end."""
    home = folder / DEFAULT_HOME
    command = [sys.executable, "-c", "from deltasnap_assets.command.cli import main; main()", "ui"]
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DAGSTER_HOME", "DELTASNAP_CONFIG")
    }
    with (folder / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(free_port())],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while not (home / "dagster.yaml").is_file():
                if process.poll() is not None:
                    raise RunFailedError((folder / "ui.log").read_text(errors="replace"))
                time.sleep(0.1)
            with dg.DagsterInstance.from_config(str(home)) as instance:
                yield instance
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _one_commit(
    bench: Bench, instance: dg.DagsterInstance, table: GrowingTable, version: int, moments: random.Random
) -> Timeline:
    bench.report(f"a commit of version {version}")
    time.sleep(_POLL_SECONDS * (0.2 + moments.random()))
    table.grow(version)
    committed = time.time()
    filters = dg.RunsFilter(tags={RANGE_END_TAG: str(version)})
    for _ in range(_RUN_SECONDS):
        for record in instance.get_run_records(filters, limit=1):
            if record.dagster_run.is_success:
                return timeline(instance, record.dagster_run.run_id, committed)
            if record.dagster_run.is_finished:
                raise RunFailedError(f"the run for version {version} ended as {record.dagster_run.status.value}")
        time.sleep(1)
    raise RunFailedError(f"no run for version {version} has succeeded after {_RUN_SECONDS} s")
