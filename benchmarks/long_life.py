"""Do the store, the sensor or runs of a table become slower after many versions?

Set as many commits as the table should have versions: `python -m benchmarks long_life --commits 10000`.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import dagster as dg

from benchmarks.bench import Bench
from benchmarks.cpu import cpu_seconds
from benchmarks.measure import Finding, Samples
from deltasnap_assets.command.local.local_instance import DAGSTER_YAML
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.planning.names import job_name, run_tags
from deltasnap_assets.runs.planning.partitions import key_of, version_partitions
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TableSettings
from deltasnap_core import DeltaLog, SnapshotStore

R = TypeVar("R")

_TABLE = "bench"
_RANGE = 100  # the default of max_versions_per_run
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run(bench: Bench) -> list[Finding]:
    """Store all versions, a hundred at a time, register all of them in Dagster, then prune."""
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    folder, table = bench.scratch("long-life"), bench.table(bench.shape)
    log = bench.cold_log(table)
    settings = Settings(
        storage=str(folder / "store"),
        spark=bench.spark_settings,
        tables=(TableSettings(name=_TABLE, path=str(table)),),
    )
    store = SnapshotStore.open(bench.spark, settings.storage, engine=settings.spark.engine)
    versions = range(bench.shape.base_version, bench.shape.last_version + 1)
    return [
        *_stored(bench, store, log, versions),
        *_recorded(bench, settings, folder, versions),
        *_pruned(store, len(versions)),
        Finding(
            question="Peak memory of the Python process",
            ours=Samples((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,)),
            unit="MiB",
        ),
    ]


def _stored(bench: Bench, store: SnapshotStore, log: DeltaLog, versions: range) -> list[Finding]:
    seconds = []
    for first in range(versions.start, versions.stop, _RANGE):
        bench.report(f"storing {_RANGE} versions of {len(versions)} from {first} on")
        last = min(first + _RANGE, versions.stop) - 1
        seconds.append(_timed(lambda first=first, last=last: store.write_range(_TABLE, log, first, last))[0])  # type: ignore[misc]
    usage = store.usage(_TABLE)
    listing, found = _timed(lambda: store.versions(_TABLE))
    reading, state = _timed(lambda: store.computed_state(_TABLE, versions[-1]))
    if (len(found), state.num_of_files) != (len(versions), bench.shape.live_files):
        raise RuntimeError(f"expected {len(versions)} versions and the files of {bench.shape}")
    return [
        Finding(
            question=f"Storing {_RANGE} versions after {len(versions):,}",
            ours=_together(seconds[-4:-1]),
            theirs=_together(seconds[1:4]),
            peer=f"after {_RANGE}",
            note="every version that the log has is there from the start",
        ),
        Finding(
            question="Stored per version, including bases",
            ours=Samples((usage.size_in_bytes / len(versions) / 1024,)),
            unit="KiB",
            note=f"{usage.num_files:,} files, {usage.size_in_bytes / 2**20:,.0f} MiB in all",
        ),
        Finding(question=f"Listing {len(versions):,} stored versions", ours=listing),
        Finding(question=f"Reading the computed state of one of {len(versions):,} versions", ours=reading),
    ]


def _recorded(bench: Bench, settings: Settings, folder: Path, versions: range) -> list[Finding]:
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(DAGSTER_YAML)
    definitions = build_definitions(settings)
    job = definitions.resolve_job_def(job_name(_TABLE))
    sensor = definitions.resolve_sensor_def(f"{_TABLE}_new_commits")
    partitions = version_partitions(_TABLE).name or ""

    def run_of(first: int, last: int) -> None:
        tags = run_tags(_TABLE, first, last)
        if not job.execute_in_process(instance=instance, tags=tags, run_config=_QUIET).success:
            raise RuntimeError(f"expected the run of versions {first} to {last} to succeed")

    def tick(cursor: str | None) -> str | None:
        with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
            result = sensor.evaluate_tick(context)
        return result.cursor

    with dg.DagsterInstance.from_config(str(home)) as instance:
        first, last = versions[0], versions[-1]
        instance.add_dynamic_partitions(partitions, [key_of(version) for version in versions])
        run_of(first, first + _RANGE - 1)
        early, _ = _timed(lambda: run_of(first, first + _RANGE - 1))
        size = _bytes_below(home)
        run_of(first, first + _RANGE - 1)
        a_version = (_bytes_below(home) - size) / _RANGE / 1024
        for version in versions:
            if version % 1000 == 0:
                bench.report(f"telling Dagster of version {version} of {last}")
            for name in ASSET_NAMES:
                instance.report_runless_asset_event(
                    dg.AssetMaterialization(dg.AssetKey([_TABLE, name]), partition=key_of(version))
                )
        late, _ = _timed(lambda: run_of(last - _RANGE + 1, last))
        whole, cursor = _timed(lambda: tick(None))
        idle, _ = _timed(lambda: tick(cursor))
    return [
        Finding(
            question=f"A run of {_RANGE} stored versions, with {len(versions):,} recorded",
            ours=late,
            theirs=early,
            peer=f"with {_RANGE} recorded",
        ),
        Finding(question="Size of Dagster's SQLite per version", ours=Samples((a_version,)), unit="KiB"),
        Finding(question=f"The first tick of the sensor, {len(versions):,} versions recorded", ours=whole),
        Finding(question="An idle tick after it", ours=idle.scaled(1000), unit="ms"),
    ]


def _pruned(store: SnapshotStore, num_versions: int) -> list[Finding]:
    seconds, report = _timed(lambda: store.prune(_TABLE, keep=_RANGE, min_age_ms=0))
    usage = store.usage(_TABLE)
    if (len(report.versions), usage.num_versions) != (num_versions - _RANGE, _RANGE):
        raise RuntimeError(f"expected {_RANGE} versions to stay, found {usage.num_versions}")
    return [
        Finding(
            question=f"Pruning all but {_RANGE} of {num_versions:,} versions",
            ours=seconds,
            note=f"{usage.num_files:,} files, {usage.size_in_bytes / 2**20:,.1f} MiB stay",
        )
    ]


def _timed(question: Callable[[], R]) -> tuple[Samples, R]:
    start, cpu_before = time.perf_counter(), cpu_seconds()
    answer = question()
    return Samples((time.perf_counter() - start,), (cpu_seconds() - cpu_before,)), answer


def _together(samples: Sequence[Samples]) -> Samples:
    return Samples(tuple(each.minimum for each in samples), tuple(cpu for each in samples for cpu in each.cpu_seconds))


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
