"""Tables with one bad commit among many good ones, written by deltalake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

ROWS = 3
"""The number of rows that each commit appends."""


def rows_with(first: int, amount: float | None) -> pa.Table:
    ids = pa.array(range(first, first + ROWS), pa.int64())
    days = pa.array([f"d{number % 2}" for number in range(ROWS)])
    return pa.table({"id": ids, "day": days, "amount": pa.array([amount] * ROWS, pa.float64())})


def append(path: Path, first: int, amount: float | None = 1.0, *, job: str = "nightly", parts: bool = False) -> int:
    """Append rows, and return the version."""
    properties = CommitProperties(custom_metadata={"job": job})
    by = ["day"] if parts else None
    write_deltalake(path, rows_with(first, amount), mode="append", partition_by=by, commit_properties=properties)
    return DeltaTable(path).version()


def appended(path: Path, commits: int, bad: int, *, parts: bool = False) -> Path:
    """Return a table of appends. The version `bad` has nulls, from another job."""
    for version in range(commits):
        job = "bad job" if version == bad else "nightly"
        append(path, ROWS * version, None if version == bad else 1.0, job=job, parts=parts)
    return path


def repartitioned(path: Path) -> Path:
    """Return a table that is partitioned by `day` in version 1 only. It updates row 1; version 2 changes no row."""
    for amount, by in ((1, []), (5, ["day"]), (5, [])):
        rows = pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["a", "b"], "amount": pa.array([amount, 2])})
        write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", partition_by=by)
    return path
