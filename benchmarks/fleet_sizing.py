"""The costs of the sizing model, and its ticks compared with measured ticks of 100, 300 and 1,000 tables."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import yaml

from benchmarks.bench import Bench
from benchmarks.fleet import LAST, commit_again, idle_ticks, open_instance
from benchmarks.logs.small_table import write_table
from benchmarks.measure import Finding, Samples
from benchmarks.sizing import Costs, Fleet, load_of, recommended_poll
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import CONFIG_VARIABLE
from deltasnap_assets.settings.table_settings import TableSettings

_FEW, _SOME, _MANY = 100, 300, 1_000
_REFRESHED = 10
_VERSIONS = 11
_CORES = 16
"""The cores that the recommendation leaves to runs."""
_TABLES = (100, 300, 1_000, 10_000)
_COMMITS_AN_HOUR = (1, 12, 60)
_STARTS = """\
import time
from deltasnap_assets import definitions
definitions.defs.get_repository_def()
print(time.process_time())
"""


def run(bench: Bench) -> list[Finding]:
    """Measure the costs, and the ticks of three fleets. The model is fitted to the first and the last."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    folder = bench.scratch("sizing")
    write_table(folder / "made")
    ticks = {count: idle_ticks(bench, folder, count) for count in (_FEW, _SOME, _MANY)}
    few, many = (ticks[count][0].median for count in (_FEW, _MANY))
    a_table = (many - few) / (_MANY - _FEW)
    one, more, first_events, events, event_bytes = _runs(bench, folder)
    costs = Costs(
        tick_seconds=max(0.0, few - a_table * _FEW),
        tick_seconds_a_table=a_table,
        requests_a_table=ticks[_MANY][1] / _MANY,
        run_cpu_seconds=one,
        process_cpu_seconds=_process(folder),
        version_cpu_seconds=more,
        events_a_run=first_events,
        events_a_version=events,
        event_bytes=event_bytes,
    )
    modelled = load_of(Fleet(tables=_SOME, commits_an_hour=0, poll_seconds=30), costs).tick_seconds
    return [
        *(_finding(f"A tick over {count:,} tables on S3", samples) for count, (samples, _) in ticks.items()),
        Finding(
            question=f"A tick over {_SOME} tables, according to the model fitted to {_FEW} and {_MANY:,}",
            ours=Samples((modelled,)),
            theirs=ticks[_SOME][0],
            peer="measured",
        ),
        *_costs(costs),
        *_recommendations(costs),
    ]


def _finding(question: str, samples: Samples) -> Finding:
    return Finding(question=question, ours=samples)


def _costs(costs: Costs) -> list[Finding]:
    return [
        Finding(
            question="A run of one version without the start of its process, CPU",
            ours=Samples((costs.run_cpu_seconds,)),
        ),
        Finding(question="The start of the process of a run, CPU", ours=Samples((costs.process_cpu_seconds,))),
        Finding(question="Each further version of a run, CPU", ours=Samples((costs.version_cpu_seconds,))),
        Finding(question="Events of a run of one version", ours=Samples((costs.events_a_run,)), unit=""),
        Finding(question="Events of each further version", ours=Samples((costs.events_a_version,)), unit=""),
        Finding(question="An event in Dagster's SQLite", ours=Samples((costs.event_bytes / 1024,)), unit="KiB"),
    ]


def _recommendations(costs: Costs) -> list[Finding]:
    found = []
    for tables in _TABLES:
        for commits in _COMMITS_AN_HOUR:
            poll = recommended_poll(tables, commits, costs, cores=_CORES)
            if poll is None:
                note, poll = f"runs need more than {_CORES} cores at any interval", float("inf")
            else:
                load = load_of(Fleet(tables=tables, commits_an_hour=commits, poll_seconds=poll), costs)
                note = (
                    f"{load.tick_seconds:.1f} s a tick, {load.requests_a_second:.0f} requests/s, "
                    f"{load.runs_a_second:.2f} runs/s, {load.cores:.1f} cores, {load.events_a_second:.1f} events/s, "
                    f"{load.database_bytes_a_day / 1e9:.1f} GB a day"
                )
            question = f"Shortest poll_seconds: {tables:,} tables, {commits} commits per hour and table"
            found.append(Finding(question=question, ours=Samples((poll,)), note=note))
    return found


def _process(folder: Path) -> float:
    """Return the CPU seconds of a process that loads the definitions of a table."""
    config = folder / "one.yaml"
    config.write_text(yaml.safe_dump({"storage": "/store", "tables": [{"name": "t", "path": "/tables/t"}]}))
    environment = os.environ | {CONFIG_VARIABLE: str(config)}
    command = [sys.executable, "-W", "ignore", "-c", _STARTS]
    seconds = [
        float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    return min(seconds)


def _runs(bench: Bench, folder: Path) -> tuple[float, float, float, float, float]:
    """Return the CPU of a run of one version and of each further one, the events of both, and the bytes of an event."""
    tables = []
    for number in range(_REFRESHED):
        shutil.copytree(folder / "made", folder / f"t{number}")
        tables.append(TableSettings(name=f"t{number}", path=str(folder / f"t{number}"), versions="latest"))
    settings = Settings(storage=str(folder / "refreshed"), spark=bench.spark_settings, tables=tuple(tables))
    assert bench.spark is not None  # the first versions are reconstructed on Spark
    definitions = build_definitions(settings)
    home, newest = folder / "runs", LAST
    with open_instance(home) as instance:

        def refresh() -> tuple[float, int, int]:
            spent, before = time.process_time(), (_events(home), _bytes(home))
            for table in tables:
                bench.report(f"refresh of {table.name}")
                refresh_table(definitions, settings, table, instance, log_level="CRITICAL")
            return (
                (time.process_time() - spent) / _REFRESHED,
                _events(home) - before[0],
                _bytes(home) - before[1],
            )

        refresh()
        spent = []
        for versions in (1, 1, _VERSIONS):
            for table in tables:
                for version in range(newest + 1, newest + versions + 1):
                    commit_again(Path(table.path), version)
            newest += versions
            spent.append(refresh())
    (one, events, _), (many, more_events, more_bytes) = spent[1:]
    further = (_VERSIONS - 1) * _REFRESHED
    return (
        one,
        (many - one) / (_VERSIONS - 1),
        events / _REFRESHED,
        (more_events - events) / further,
        more_bytes / max(1, more_events),
    )


def _events(home: Path) -> int:
    """Return the number of events of all runs."""
    count = 0
    for file in _databases(home):
        if file.stem != "index":  # Dagster repeats the events of assets
            with closing(sqlite3.connect(file)) as database:
                count += database.execute("select count(*) from event_logs").fetchone()[0]
    return count


def _bytes(home: Path) -> int:
    """Return the size of the event log of all runs."""
    return sum(file.stat().st_size for file in _databases(home))


def _databases(home: Path) -> list[Path]:
    return sorted((home / "history" / "runs").glob("*.db"))
