"""All tables on one page, using only the store: 1,000 tables with 100 versions each."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import yaml

from benchmarks.bench import Bench
from benchmarks.measure import Aim, Finding, Samples
from benchmarks.stored_fleet import store_table
from deltasnap_assets.settings.loading import CONFIG_VARIABLE
from deltasnap_core import SnapshotStore
from deltasnap_core.support import LastPoll, system_clock

_TABLES = 1_000
_VERSIONS = 100
_HOUR_MS = 3_600_000
_AIM = Aim(at_most=10, is_ratio=False)
_COMMAND = "from deltasnap_assets.command.cli import main; main()"


def run(bench: Bench) -> list[Finding]:
    """Measure `deltasnap fleet` in a new process: with recorded polls, and without any, which is the slowest case."""
    folder = bench.scratch("fleet_page")
    now = system_clock()
    names = [f"t{number:04d}" for number in range(_TABLES)]
    for number, name in enumerate(names):
        bench.report(f"store of {number:,} tables")
        pause = (1 + number % 24) * _HOUR_MS
        commits = [(now - (_VERSIONS - version) * pause, 1 + version + number) for version in range(_VERSIONS)]
        store_table(folder / "store", name, commits)
    config = folder / "deltasnap.yaml"
    tables = [{"name": name, "path": f"/nowhere/{name}"} for name in names]
    config.write_text(yaml.safe_dump({"storage": "store", "tables": tables}))
    without = _command(bench, config, "unknown")
    polls = SnapshotStore.open(None, folder / "store").polls
    noted = []
    for name in names:
        start = time.perf_counter()
        poll = LastPoll(polled_at_ms=now, checked_version=_VERSIONS - 1, last_commit_ms=now)
        polls.write(name, replace(poll, points=polls.points(name, poll)))
        noted.append(time.perf_counter() - start)
    shape = f"{_TABLES:,} tables with {_VERSIONS} versions each"
    return [
        Finding(
            question=f"`deltasnap fleet`: {shape}",
            ours=_command(bench, config, "healthy"),
            aim=_AIM,
            note="new process; the store on local disk",
        ),
        Finding(question=f"The same, without recorded polls: {shape}", ours=without, aim=_AIM),
        Finding(question="Recording the first poll of a table, at the end of a run", ours=Samples(tuple(noted))),
    ]


def _command(bench: Bench, config: Path, condition: str) -> Samples:
    environment = os.environ | {CONFIG_VARIABLE: str(config)}
    seconds, cpu = [], []
    for number in range(bench.repeat):
        bench.report(f"fleet, round {number}")
        start, cpu_before = time.perf_counter(), _cpu_of_children()
        command = [sys.executable, "-c", _COMMAND, "fleet", "--json"]
        output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        seconds.append(time.perf_counter() - start)
        cpu.append(_cpu_of_children() - cpu_before)
        assert json.loads(output)["totals"][condition] == _TABLES
    return Samples(tuple(seconds), tuple(cpu))


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
