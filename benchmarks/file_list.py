"""How long does it take to list all files, path and size, as an Arrow table?"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.answers import their_file_list
from benchmarks.bench import OURS, Bench
from benchmarks.measure import WARM_UPS, Aim, Finding, Samples, Side, compare, time_in_turn

_COLUMNS = ("path", "size")
_PEER = "pyarrow, those columns of the checkpoint"


def run(bench: Bench) -> list[Finding]:
    """Measure a loaded snapshot and a cold start. pyarrow reads only the checkpoint, without commits."""
    table = bench.table(bench.shape)
    (checkpoint,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    found = bench.cold_log(table).update().all_files.select(*_COLUMNS).toArrow()
    compare({OURS: _files(found), "deltalake": their_file_list(table)})
    snapshot = bench.cold_log(table).update()
    snapshot.all_files.limit(1).count()
    sides = {
        "loaded": Side(run=lambda: snapshot.all_files.select(*_COLUMNS).toArrow()),
        "cold": Side(run=lambda: bench.cold_log(table).update().all_files.select(*_COLUMNS).toArrow()),
        "pyarrow": Side(run=lambda: _read_columns(checkpoint)),
    }
    times = time_in_turn(sides, bench.repeat, warm_ups=WARM_UPS)
    return [
        _finding("Path and size of all files to Arrow, log loaded", times["loaded"], times["pyarrow"]),
        _finding("The same, cold", times["cold"], times["pyarrow"]),
    ]


def _finding(question: str, ours: Samples, theirs: Samples) -> Finding:
    return Finding(question=question, ours=ours, theirs=theirs, peer=_PEER, aim=Aim(1.5))


def _files(files: pa.Table) -> frozenset[tuple[str, int]]:
    return frozenset(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True))


def _read_columns(checkpoint: Path) -> pa.Table:
    return pq.read_table(checkpoint, columns=[f"add.{name}" for name in _COLUMNS])
