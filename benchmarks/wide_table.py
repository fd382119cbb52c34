"""A table of 10,000 columns: its computed state, and a run that shows a new version of it in Dagster."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.bench import OURS, PEER, Bench
from benchmarks.measure import Aim, Finding, Samples, Side, time_in_turn
from deltasnap_assets.command.local.local_instance import DAGSTER_YAML
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings

_COLUMNS = 10_000


def run(bench: Bench) -> list[Finding]:
    """Measure a table that deltalake writes."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    table = bench.scratch("wide")
    _append(table)
    _append(table)
    times = time_in_turn(
        {
            OURS: Side(
                run=lambda: bench.cold_log(table).update().computed_state.num_of_files, answer=lambda files: files
            ),
            PEER: Side(run=lambda: len(DeltaTable(table).file_uris()), answer=lambda files: files),
        },
        bench.repeat,
    )
    return [
        Finding(
            question=f"Computed state of a table of {_COLUMNS:,} columns, cold",
            ours=times[OURS],
            theirs=times[PEER],
            peer="deltalake load",
        ),
        _refreshes(bench, table),
    ]


def _append(table: Path) -> None:
    write_deltalake(table, pa.table({f"column_{number}": [number] for number in range(_COLUMNS)}), mode="append")


def _refreshes(bench: Bench, table: Path) -> Finding:
    """Store new versions and materialize the assets, with their pages."""
    home = bench.scratch("home")
    (home / "dagster.yaml").write_text(DAGSTER_YAML)
    settings = Settings(
        storage=str(bench.scratch("store")),
        spark=bench.spark_settings,
        tables=(TableSettings(name="wide", path=str(table)),),
    )
    definitions = build_definitions(settings)
    seconds = []
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for number in range(bench.repeat + 1):
            _append(table)
            bench.report(f"refresh of a wide table, round {number}")
            start = time.perf_counter()
            stored = refresh_table(definitions, settings, settings.tables[0], instance, log_level="CRITICAL")
            seconds.append(time.perf_counter() - start)
            assert stored, "expected a new version"
    return Finding(
        question=f"A run that stores a version of a table of {_COLUMNS:,} columns and makes its pages, in one process",
        ours=Samples(tuple(seconds[1:])),
        aim=Aim(at_most=2, is_ratio=False),
    )
