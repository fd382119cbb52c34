"""Some of the random predicates in every run; `python -m tests.fuzz.scans` tries thousands."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.scans import trial
from tests.fuzz.scans.predicates import RandomPredicates
from tests.fuzz.scans.tables import written_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Other tables with DELTASNAP_FUZZ_SEED, more of them with DELTASNAP_FUZZ_SCANS.
SEED = int(os.environ.get("DELTASNAP_FUZZ_SEED", "1"))
TABLES = int(os.environ.get("DELTASNAP_FUZZ_SCANS", "2"))

pytestmark = pytest.mark.thorough


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_scan_returns_the_filtered_rows_of_the_table_and_loses_no_file(seed: int, spark: SparkSession) -> None:
    tried = trial.try_table(seed, spark, predicates=100, scans=2)
    assert tried.wrong == []
    assert tried.skipped > tried.chances / 10  # else nothing was tried


@pytest.mark.spark
def test_lost_file_is_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "condition_on_files", lambda skipping, parsed: "false")
    assert "lost" in " ".join(trial.try_table(SEED, spark, predicates=20, scans=0).wrong)


def test_table_and_predicates_of_a_seed_are_deterministic(tmp_path: Path) -> None:
    made = []
    for name in "ab":
        rng = Random(7)
        table = written_table(rng, tmp_path / name)
        drawn = RandomPredicates(rng, table.kinds)
        made.append((table.live_rows(), [drawn.draw() for _ in range(20)]))
    assert str(made[0]) == str(made[1])
