"""How fast are tables of other shapes: statistics, row groups, checkpoints of other writers, JSON?"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from benchmarks.bench import Bench
from benchmarks.cold_state import cold_state
from benchmarks.logs.shape import CheckpointKind, CheckpointWriter, LogShape
from benchmarks.measure import Aim, Finding
from benchmarks.update import following
from deltasnap_core import DeltaLog, SnapshotOptions

STATS_COLUMNS = {2: 0.25, 4: 0.2, 32: 0.16}
"""The maximum ratio, by the number of columns with statistics."""

ROW_GROUPS = (1, 10, 100)

OTHER_SHAPES: dict[str, dict[str, Any]] = {
    "10 parts": {"checkpoint": CheckpointKind.MULTI_PART, "parts": 10},
    "V2 checkpoint with 10 sidecars": {"checkpoint": CheckpointKind.V2_JSON, "parts": 10},
    "statistics only as values": {"parsed_stats": True},
    "no statistics": {"stats_columns": 0},
    "three partition columns": {"partition_columns": 3},
    "mapped columns": {"mapped": True},
    "a deletion vector on each tenth file": {"vectors_every": 10},
}


def run(bench: Bench) -> list[Finding]:
    """Measure a million files, or `--files`, in each shape; then tables that are small or have no checkpoint."""
    findings = []
    for width, aim in STATS_COLUMNS.items():
        shape = replace(bench.shape, stats_columns=width)
        findings.append(cold_state(bench, shape, f"{_files(shape)}, statistics of {width} columns", Aim(aim)))
    for count in ROW_GROUPS:
        shape = replace(bench.shape, row_groups=count)
        findings.append(cold_state(bench, shape, f"{_files(shape)}, {count} row groups"))
    for name, others in OTHER_SHAPES.items():
        shape = replace(bench.shape, **others)
        findings.append(cold_state(bench, shape, f"{_files(shape)}, {name}"))
    for writer in (CheckpointWriter.DELTALAKE, CheckpointWriter.SPARK):
        shape = replace(bench.shape, writer=writer)
        _table_of_peer(bench, shape)
        findings.append(cold_state(bench, shape, f"{_files(shape)}, checkpoint written by {writer}"))
    small = LogShape(files=10, tombstones=0, commits=20, actions=2)
    findings.append(cold_state(bench, small, "10 files, 20 commits"))
    findings.append(following(bench, small, "10 files: +10 commits on a loaded snapshot"))
    return [*findings, *_json(bench)]


def _json(bench: Bench) -> list[Finding]:
    count = min(300_000, bench.files)
    adds = LogShape(files=count // 4, tombstones=0, commits=3, actions=count // 4, checkpoint=CheckpointKind.NONE)
    return [cold_state(bench, adds, f"{count:,} actions in 4 JSON commits, no checkpoint", Aim(0.6))]


def _files(shape: LogShape) -> str:
    return f"{shape.files:,} files"


def _table_of_peer(bench: Bench, shape: LogShape) -> None:
    """Generate a table whose checkpoint a peer writes, from ours, after the first commit."""
    table = bench.folder / "tables" / shape.name
    if table.exists():
        return
    made = bench.table(replace(shape, writer=CheckpointWriter.OURS))
    partial = table.with_name(table.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(made, partial)
    log, version = partial / "_delta_log", shape.base_version + 1
    if shape.writer is CheckpointWriter.SPARK:
        _write_by_spark(bench, partial, version)
    else:
        DeltaTable(partial, version=version).create_checkpoint()
    (log / f"{shape.base_version:020d}.checkpoint.parquet").unlink()
    (log / "_last_checkpoint").write_text(f'{{"version":{version},"size":{shape.files}}}')
    partial.rename(table)


def _write_by_spark(bench: Bench, table: Path, version: int) -> None:
    log = DeltaLog.for_table(bench.spark, table, options=SnapshotOptions(cache_state=False))
    state = log.get_snapshot_at(version, min_file_retention_timestamp=0).state
    written = bench.scratch("checkpoint") / "parquet"
    state.coalesce(1).write.parquet(str(written))
    (part,) = written.glob("*.parquet")
    shutil.move(part, table / "_delta_log" / f"{version:020d}.checkpoint.parquet")
    DeltaLog.clear_cache()
