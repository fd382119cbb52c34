"""Are large commits, long logs, wide tables and multi-part checkpoints read in linear time within memory limits?

The shapes are those of the delta-kernel-rs benchmarks, and those of the largest logs. None has more than `--files`
files.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.cold_state import cold_state
from benchmarks.logs.shape import CheckpointKind, LogShape
from benchmarks.measure import Finding

MILLION = 1_000_000
SINGLE_COMMITS = (100, 1_000, 10_000, 100_000, MILLION)


def run(bench: Bench) -> list[Finding]:
    """Load each shape cold on both sides, then measure the additional cost of an add in the largest commit."""
    singles = {
        count: _measure(bench, f"One commit of {count:,} adds", _base(count, checkpoint=CheckpointKind.NONE))
        for count in sorted({min(count, bench.files) for count in SINGLE_COMMITS})
    }
    others = [_measure(bench, name, shape) for name, shape in _workloads(bench.files).items()]
    (smaller, before), (larger, last) = list(singles.items())[-2:]
    linear = Finding(
        question=f"Time per add in a commit of {larger:,}, compared with {smaller:,}",
        ours=last.ours.scaled(1e6 / larger),
        theirs=before.ours.scaled(1e6 / smaller),
        peer="deltasnap on the smaller commit",
        unit="µs",
        note="linear: 1 or less",
    )
    return [*singles.values(), linear, *others]


def _workloads(most: int) -> dict[str, LogShape]:
    def of(count: int) -> int:
        return min(count, most)

    commits, long_log = min(1_000, most // 100), min(20_000, most // 50)
    sidecars = {
        f"{of(10_000):,} adds, checkpoint {kind} with 2 sidecars": _base(of(10_000), checkpoint=kind, parts=2)
        for kind in (CheckpointKind.V2_PARQUET, CheckpointKind.V2_JSON)
    }
    return {
        f"A checkpoint, then one commit of {of(MILLION):,} actions": LogShape(
            files=of(MILLION), tombstones=0, commits=1, actions=of(MILLION)
        ),
        f"{of(100_000):,} adds and {commits:,} commits since the checkpoint": LogShape(
            files=of(100_000), tombstones=0, commits=commits
        ),
        **sidecars,
        f"{of(300_000):,} adds of 100 partition columns": _base(of(300_000), partition_columns=100),
        f"{of(200_000):,} adds, statistics as a struct": _base(of(200_000), parsed_stats=True),
        f"{long_log:,} commits without a checkpoint": LogShape(
            files=of(10_000), tombstones=0, commits=long_log, checkpoint=CheckpointKind.NONE
        ),
        f"{of(MILLION):,} files in a checkpoint of 100 parts": LogShape(
            files=of(MILLION), tombstones=of(MILLION) // 10, checkpoint=CheckpointKind.MULTI_PART, parts=100
        ),
    }


def _base(files: int, **others: Any) -> LogShape:
    """Return a shape with only a base version."""
    return LogShape(files=files, tombstones=0, commits=0, **others)


def _measure(bench: Bench, name: str, shape: LogShape) -> Finding:
    bench.report(name)
    return cold_state(bench, shape, name)
