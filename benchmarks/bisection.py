"""How long does it take to find the version that broke an expectation? Compared with reading every version."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

from benchmarks.bench import OURS, PEER, Bench
from benchmarks.measure import Aim, Finding, Samples, Side, compare, time_in_turn
from deltasnap_core import DeltaLog

VERSIONS, FILES_A_VERSION, ROWS_A_FILE, BAD = 100, 10, 100, 37
SAMPLED = 4
_ONE_READ = "one read"


def run(bench: Bench) -> list[Finding]:
    """Search 100 versions of 1,000 files with 100,000 rows, by a condition that statistics decide, and by another."""
    table = _written(bench.scratch("bisect") / "t")
    found = []
    for name, where, expression in (
        ("a condition that statistics decide", "amount < 0", ds.field("amount") < 0),
        ("another condition", "-amount % 1000 = 1", ds.field("rest") == 999),
    ):
        for first in (False, True):
            samples = _timed(bench, table, where, expression, first=first)
            found += _findings(name, samples, first=first)
    return found


def _findings(name: str, samples: dict[str, Samples], *, first: bool) -> list[Finding]:
    how = "bisect --first" if first else "bisect"
    return [
        Finding(
            question=f"{how} of {VERSIONS} versions, 1,000 files, 100,000 rows: {name}",
            ours=samples[OURS],
            theirs=samples[PEER],
            peer=f"deltalake, each version read (extrapolated from {SAMPLED})",
        ),
        Finding(
            question=f"The same: {how}, {name}",
            ours=samples[OURS],
            theirs=samples[_ONE_READ].scaled(10),
            peer="ten reads of the latest version by Spark",
            aim=None if first else Aim(1),
        ),
    ]


def _written(path: Path) -> Path:
    """Write a table with one bad version: its rows have a negative amount, and a rest that no other row has."""
    for version in range(VERSIONS):
        count = FILES_A_VERSION * ROWS_A_FILE
        numbers = np.arange(version * count, (version + 1) * count)
        rest = np.where((version == BAD) & (numbers % 100 == 0), 999, numbers % 900)
        amounts = np.where(rest == 999, -1, numbers) * 1000 + rest
        rows = {"id": numbers, "part": numbers % FILES_A_VERSION, "amount": amounts, "rest": rest}
        write_deltalake(path, pa.table(rows), mode="append", partition_by=["part"])
    return path


def _timed(bench: Bench, table: Path, where: str, expression: ds.Expression, *, first: bool) -> dict[str, Samples]:
    """Return the times of a search, of reading all versions with deltalake, and of reading one with Spark."""

    def read_sampled() -> int:
        datasets = (DeltaTable(table, version=version).to_pyarrow_dataset() for version in sampled)
        return sum(each.count_rows(filter=expression) for each in datasets)

    last = BAD if first else VERSIONS - 1  # until the first version that fails
    sampled = [round(last * part / (SAMPLED - 1)) for part in range(SAMPLED)]
    log = partial(bench.cold_log, table)
    sides: dict[str, Side[Any]] = {
        OURS: Side(
            prepare=DeltaLog.clear_cache,
            run=lambda: log().known_versions().bisect(where=where, first=first),
            finish=lambda found: compare({"found": found.version, "expected": BAD}),
        ),
        PEER: Side(run=read_sampled),
        _ONE_READ: Side(
            prepare=DeltaLog.clear_cache,
            run=lambda: log().update().scan().to_df().write.format("noop").mode("overwrite").save(),
        ),
    }
    found = time_in_turn(sides, bench.repeat)
    return {**found, PEER: found[PEER].scaled((last + 1) / SAMPLED)}
