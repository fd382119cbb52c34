"""Does the memory of the process that evaluates the sensor grow in a day of ticks?"""

from __future__ import annotations

import logging
import shutil

from benchmarks.bench import Bench
from benchmarks.fleet import open_instance
from benchmarks.logs.small_table import write_table
from benchmarks.measure import Aim, Finding, Samples
from benchmarks.processes import run_child
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings

_TABLES = 24
"""So many tables share a sensor."""
_TICK_SECONDS = 60
_HOURS = (1, 13, 26)
"""When to measure. After a day, each log is examined again."""


def run(bench: Bench) -> list[Finding]:
    """Store the tables, then run the ticks of 25 hours in a process whose clock moves between two ticks."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    folder = bench.scratch("daemon")
    write_table(folder / "made")
    names = [f"t{number}" for number in range(_TABLES)]
    tables = tuple(TableSettings(name=name, path=str(folder / name), versions="latest") for name in names)
    settings = Settings(storage=str(folder / "store"), spark=bench.spark_settings, tables=tables)
    assert bench.spark is not None  # the first versions are reconstructed on Spark
    definitions = build_definitions(settings)
    with open_instance(folder / "home") as instance:
        for table in tables:
            bench.report(f"refresh of {table.name}")
            shutil.copytree(folder / "made", table.path)
            refresh_table(definitions, settings, table, instance, log_level="CRITICAL")
    bench.report(f"ticks over {_TABLES} tables")
    given = {"folder": str(folder), "tables": names, "tick_seconds": _TICK_SECONDS, "hours": _HOURS}
    reports = run_child("daemon", folder / "child.log", **given)
    early, half, late = (Samples((reports[str(hour)].values["resident_mib"],)) for hour in _HOURS)
    return [
        Finding(
            question=f"Memory of the process that polls {_TABLES} tables, after {_HOURS[-1]} hours of ticks",
            ours=late,
            theirs=early,
            peer="after an hour",
            unit="MiB",
            aim=Aim(1.05),
            note=f"a tick each {_TICK_SECONDS} s on a simulated clock; after {_HOURS[1]} hours {half.median:.0f} MiB",
        )
    ]
