"""How long does Dagster's event log take per version, if nothing has to be computed?"""

from __future__ import annotations

import logging
import os
import time
import uuid

import dagster as dg

from benchmarks.bench import Bench
from benchmarks.measure import Finding, Samples
from deltasnap_assets.command.local.local_instance import DAGSTER_YAML
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import job_name, run_tags
from deltasnap_assets.runs.planning.partitions import version_partitions
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import SnapshotStore

POSTGRES = "DELTASNAP_BENCH_POSTGRES"
"""The URL of an empty database (postgresql://user:password@host/name) to measure too; needs dagster-postgres."""

_TABLE = "bench"
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run(bench: Bench) -> list[Finding]:
    """Measure runs of few and of many stored versions, in one process with a warm session.

    The cost of a version is the additional time of the larger run, divided by its additional versions.
    """
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    storages = {"SQLite": ""}
    if os.environ.get(POSTGRES):
        storages["Postgres"] = f"storage:\n  postgres:\n    postgres_url: {{env: {POSTGRES}}}\n"
    folder = bench.scratch("event-log")
    table = TableSettings(name=_TABLE, path=str(bench.table(bench.shape)))
    settings = Settings(storage=str(folder / "store"), spark=bench.spark_settings, tables=(table,))
    log = bench.cold_log(bench.table(bench.shape))
    store = SnapshotStore.open(bench.spark, settings.storage, engine=settings.spark.engine)
    store.write_range(_TABLE, log, bench.shape.base_version, bench.shape.last_version)
    found = []
    for storage, setting in storages.items():
        home = folder / storage
        home.mkdir()
        (home / "dagster.yaml").write_text(DAGSTER_YAML + setting)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            found += _measure(bench, settings, instance, storage)
    return found


def _measure(bench: Bench, settings: Settings, instance: dg.DagsterInstance, storage: str) -> list[Finding]:
    first, last = bench.shape.base_version, bench.shape.last_version
    few, many = max(1, bench.commits // 10), bench.commits + 1
    job = build_definitions(settings).resolve_job_def(job_name(_TABLE))
    name = version_partitions(_TABLE).name or ""
    instance.add_dynamic_partitions(name, [str(version) for version in range(first, last + 1)])
    a_version, a_run, events = [], [], 0.0
    for number in range(bench.repeat + 1):
        bench.report(f"{storage}: runs of {few} and {many} versions, round {number}")
        short, short_events = _timed_run(job, instance, first, first + few - 1)
        long, long_events = _timed_run(job, instance, first, first + many - 1)
        events = (long_events - short_events) / (many - few)
        if number:
            a_version.append((long - short) / (many - few) * 1000)
            a_run.append(short)
    return [
        Finding(
            question=f"Dagster's overhead per version in a run of many, {storage}",
            ours=Samples(tuple(a_version)),
            unit="ms",
            note=f"{events:.1f} events a version; runs of {few} and of {many} versions, stored before",
        ),
        Finding(question=f"A run of {few} stored versions, in one process, {storage}", ours=Samples(tuple(a_run))),
    ]


def _timed_run(job: dg.JobDefinition, instance: dg.DagsterInstance, first: int, last: int) -> tuple[float, int]:
    """Return the duration of a run in seconds, and the number of its events."""
    run_id = str(uuid.uuid4())
    start = time.perf_counter()
    result = job.execute_in_process(
        instance=instance, run_id=run_id, tags=run_tags(_TABLE, first, last), run_config=_QUIET
    )
    seconds = time.perf_counter() - start
    if not result.success:
        raise RuntimeError(f"expected the run of versions {first} to {last} to succeed")
    return seconds, len(instance.all_logs(run_id))
