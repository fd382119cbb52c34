"""How long does it take to find the nulls and extremes of 32 columns: of changed files, and of all files?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.bench import Bench
from benchmarks.measure import Aim, Finding, Side, time_in_turn
from benchmarks.version_range import TABLE

COLUMNS, COMMITS = 32, 12


def run(bench: Bench) -> list[Finding]:
    """Compare with the cold state of the log. The first commit removes the least values, the later ones no extreme."""
    shape = replace(bench.shape, stats_columns=COLUMNS, commits=COMMITS, checksums=False)
    table, store, last = bench.table(shape), bench.new_store(), shape.last_version
    store.write_range(TABLE, bench.cold_log(table), shape.base_version, shape.base_version)
    for version in range(shape.base_version + 1, last + 1):
        store.write_range(TABLE, bench.cold_log(table), version, version)
    tables = store.tables(TABLE, last)
    known = {ago: store.tables(TABLE, last - ago).column_totals(0).to_json() for ago in (1, 10)}
    sides = {
        "the last commit": Side(run=partial(tables.column_totals, 0, known[1]), answer=lambda totals: totals.trends()),
        "the last ten commits": Side(
            run=partial(tables.column_totals, 0, known[10]), answer=lambda totals: totals.trends()
        ),
        "all files": Side(run=partial(tables.column_totals, 0), answer=lambda totals: totals.trends()),
    }
    cold = {"cold": Side(run=lambda: bench.cold_log(table).update().computed_state)}
    times = time_in_turn(sides, bench.repeat) | time_in_turn(cold, bench.repeat)
    return [
        Finding(
            question=f"Nulls and extremes of {COLUMNS} columns from {name}, {shape.files:,} files",
            ours=times[name],
            theirs=times["cold"],
            peer="cold computed state",
            aim=Aim(0.25),
        )
        for name in sides
    ]
