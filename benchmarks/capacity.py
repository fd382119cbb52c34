"""How do loading and following a table scale with its number of files? Fits a line to extrapolate to larger tables."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from benchmarks.bench import Bench
from benchmarks.logs.shape import LogShape
from benchmarks.measure import Finding, Samples, Side, time_in_turn
from benchmarks.update import NEW_COMMITS, Following
from benchmarks.version_range import TABLE
from deltasnap_core import SnapshotStore

SIZES = (0.01, 0.1, 1, 5)
"""Multiples of `--files`."""


def run(bench: Bench) -> list[Finding]:
    """Measure each size in turn, then fit a least-squares line for each question."""
    shapes = [_shape(bench, round(size * bench.files)) for size in SIZES]
    found: dict[str, dict[int, Samples]] = {}
    for shape in shapes:
        bench.report(f"{shape}")
        for question, samples in _measure(bench, shape).items():
            found.setdefault(question, {})[shape.files] = samples
    findings = []
    for question, by_files in found.items():
        findings += [
            Finding(question=f"{question}, {files:,} files", ours=samples) for files, samples in by_files.items()
        ]
        findings.append(_line(question, by_files))
    return findings


def _shape(bench: Bench, files: int) -> LogShape:
    return replace(bench.shape, files=files, tombstones=files // 10)


def _measure(bench: Bench, shape: LogShape) -> dict[str, Samples]:
    table, following = bench.table(shape), Following(bench, shape)
    stored: list[SnapshotStore] = []

    def store_base() -> None:
        stored.append(bench.new_store())
        stored[-1].write_range(TABLE, bench.cold_log(table), shape.base_version, shape.base_version)

    sides: dict[str, Side[Any]] = {
        "Computed state, cold": Side(run=lambda: bench.cold_log(table).update().computed_state),
        f"+{NEW_COMMITS} commits on a loaded snapshot": Side(
            prepare=following.load_ours, run=following.update_ours, finish=lambda _: following.forget()
        ),
        "The base of a store": Side(run=store_base),
    }
    return time_in_turn(sides, bench.repeat)


def _line(question: str, by_files: dict[int, Samples]) -> Finding:
    millions = [files / 1e6 for files in by_files]
    slope, intercept = statistics.linear_regression(millions, [samples.median for samples in by_files.values()])
    return Finding(
        question=f"{question}, per additional million files",
        ours=Samples((slope,)),
        note=f"a table without files: {intercept:.2f} s",
    )
