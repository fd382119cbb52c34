"""The fuzzer's clean, damaged and rewritten logs on Sail; `python -m tests.fuzz --spark sail` tries thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("tests.sail.client", reason="needs an environment of constraints-sail.txt", exc_type=ImportError)
from deltasnap_core.log.commits import commit_batch
from tests.fuzz.judge import try_table
from tests.fuzz.rewritten_logs import try_rewriting
from tests.fuzz.test_fuzz import SEED, reported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT, A_TEST = 6, 2


@pytest.mark.parametrize("first", range(SEED, SEED + COUNT, A_TEST))
def test_replay_and_store_on_sail_give_correct_results_or_errors(first: int, spark: SparkSession) -> None:
    assert reported([try_table(seed, spark) for seed in range(first, first + A_TEST)]) == []


def test_commits_read_by_path_on_sail_are_correct(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    assert reported([try_table(seed, spark) for seed in range(SEED, SEED + A_TEST)]) == []


def test_snapshots_and_store_on_sail_follow_a_rewritten_log(spark: SparkSession) -> None:
    assert reported([try_rewriting(seed, spark) for seed in range(SEED, SEED + 2)]) == []
