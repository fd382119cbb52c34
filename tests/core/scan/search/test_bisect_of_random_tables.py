"""`bisect` on random tables, compared with the rows of every version."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import open_table
from deltasnap_core.scan.search.bisect import Bisection, Outcome
from tests.core.scan.changing_tables import ChangingTable, written_by_deltalake, written_by_hand
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES = int(os.environ.get("DELTASNAP_RANDOM_TABLES", "8"))
"""More tables: DELTASNAP_RANDOM_TABLES=200."""

CONDITIONS: dict[str, Callable[[list[Any]], bool]] = {
    "text = 'x'": lambda row: row[3] == "x",
    "part is null and id > 3": lambda row: row[1] is None and row[0] > 3,
    "number = 7 or text = 'z'": lambda row: row[2] == 7 or row[3] == "z",
    "place.x is null": lambda row: row[5] is None or row[5]["x"] is None,
}
"""Conditions in SQL, and over a row of a changing table."""


def numbers(table: ChangingTable, is_true: Callable[[list[Any]], bool]) -> list[int]:
    """Return the number of rows of each version for which a condition is true."""
    names = {"nan": math.nan}
    parsed = [[(eval(row, names), copies) for row, copies in rows.items()] for rows in table.versions]
    return [sum(copies for row, copies in rows if is_true(row)) for rows in parsed]


@pytest.mark.parametrize("seed", one_in(8, range(TABLES)))
def test_found_version_changes_the_expectation_and_first_is_the_first(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    write = written_by_hand if seed % 2 else written_by_deltalake
    table = write(tmp_path / "t", seed, steps=9)
    opened = open_table(table.path, spark=spark)
    for where in random.Random(seed).sample([*CONDITIONS], 2):
        is_true = CONDITIONS[where]
        expected = numbers(table, is_true)
        limit = (expected[0] + expected[-1]) // 2
        rule = f"count <= {limit}" if expected[0] < expected[-1] else f"count > {limit}"
        holds = [(number <= limit) == (expected[0] < expected[-1]) for number in expected]
        for first in (False, True):
            found = opened.bisect(where=where, expect=rule, first=first)
            check(found, expected, holds, f"{where}, {rule}: {expected} {table.operations}")


def check(found: Bisection, expected: list[int], holds: list[bool], about: str) -> None:
    assert all(step.number == expected[step.version] for step in found.steps), about
    assert all(step.holds == holds[step.version] for step in found.steps), about
    if holds[-1] or not holds[0]:
        assert found.outcome is (Outcome.HOLDS if holds[-1] else Outcome.FAILED_BEFORE), about
        return
    version = found.version
    assert version is not None, about
    assert (holds[version - 1], holds[version]) == (True, False), about
    if found.is_first:
        assert version == holds.index(False), about
    change = expected[version] - expected[version - 1]
    assert sum(file.rows if file.is_added else -file.rows for file in found.files) == change, about
    assert found.rows is not None, about
    kinds = found.rows.to_arrow()["_change_type"].to_pylist()
    assert kinds.count("insert") - kinds.count("delete") == change, about
