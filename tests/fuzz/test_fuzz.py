"""Some of the fuzzer's tables in every run; `python -m tests.fuzz` tries thousands."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.log.commits import commit_batch
from deltasnap_core.replay import engine
from tests.fuzz.damaged_logs import try_damaging
from tests.fuzz.judge import Tried, try_table
from tests.fuzz.limits import small_limits
from tests.fuzz.made_tables import make_table
from tests.fuzz.meanings import Mutation
from tests.fuzz.questions import limited_memory
from tests.fuzz.rewritten_logs import try_rewriting
from tests.fuzz.watched_store import WatchedStore

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Other tables with DELTASNAP_FUZZ_SEED; more or fewer of them, with Spark, with DELTASNAP_FUZZ_COUNT.
SEED = int(os.environ.get("DELTASNAP_FUZZ_SEED", "1"))
COUNT = int(os.environ.get("DELTASNAP_FUZZ_COUNT", "8"))
WITHOUT_SPARK = 100
A_TEST = 5
_MARKS = (pytest.mark.spark, pytest.mark.thorough)


def reported(tried: list[Tried]) -> list[str]:
    return [str(finding) for one in tried for finding in one.findings]


def _some_at_once(step: int) -> list[Any]:
    """The first tables are also tried in the quick run, the others in a thorough one."""
    firsts = range(SEED, SEED + WITHOUT_SPARK, step)
    return [pytest.param(first, marks=() if first == SEED else _MARKS) for first in firsts]


@pytest.mark.parametrize("first", _some_at_once(A_TEST))
def test_damaged_log_gives_correct_results_or_errors(first: int) -> None:
    with limited_memory():
        assert reported([try_table(seed) for seed in range(first, first + A_TEST)]) == []


@pytest.mark.parametrize("first", _some_at_once(2 * A_TEST))
def test_rewritten_log_gives_correct_results(first: int) -> None:
    assert reported([try_rewriting(seed) for seed in range(first, first + 2 * A_TEST)]) == []


@pytest.mark.parametrize("first", _some_at_once(A_TEST))
def test_log_with_damaged_commits_loses_only_versions_that_need_them(first: int) -> None:
    assert reported([try_damaging(seed) for seed in range(first, first + A_TEST)]) == []


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("first", range(SEED, SEED + COUNT, A_TEST))
def test_replay_and_store_give_correct_results_or_errors(first: int, spark: SparkSession) -> None:
    last = min(first + A_TEST, SEED + COUNT)
    assert reported([try_table(seed, spark) for seed in range(first, last)]) == []


@pytest.mark.spark
def test_snapshots_and_store_follow_a_rewritten_log(spark: SparkSession) -> None:
    assert reported([try_rewriting(seed, spark) for seed in range(SEED, SEED + COUNT // 6)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", _some_at_once(A_TEST))
def test_small_limits_change_no_result(first: int) -> None:
    assert reported([_tried_with_small_limits(seed, None) for seed in range(first, first + A_TEST)]) == []


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT, 4))
def test_small_limits_change_no_result_of_spark_and_the_store(seed: int, spark: SparkSession) -> None:
    assert reported([_tried_with_small_limits(seed, spark)]) == []


def _tried_with_small_limits(seed: int, spark: SparkSession | None) -> Tried:
    with small_limits(seed), limited_memory():
        tried, rewritten = try_table(seed, spark, has_small_limits=True), try_rewriting(seed, spark)
    return Tried(tried.kinds + rewritten.kinds, tried.findings + rewritten.findings)


def test_small_limits_of_a_seed_are_deterministic_and_end() -> None:
    chosen = []
    for _ in range(2):
        before = commit_batch.LARGE_COMMIT_BYTES, engine.LIMITS
        with small_limits(1) as limits:
            assert engine.LIMITS is not before[1]
            chosen.append(str(limits))
        assert before == (commit_batch.LARGE_COMMIT_BYTES, engine.LIMITS)
    assert chosen[0] == chosen[1]


def test_table_of_a_seed_is_deterministic(tmp_path: Path) -> None:
    contents = []
    for name in "ab":
        table = make_table(tmp_path / name, Random(7))
        contents.append({file.name: file.read_bytes() for file in table.files()})
    assert contents[0] == contents[1]


def test_wrong_result_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    from deltasnap_core.log.version_log import VersionLog
    from tests.fuzz import judge

    nothing: list[Mutation] = []
    monkeypatch.setattr(judge, "mutated", lambda *_: nothing)
    assert reported([try_table(SEED)]) == []
    wrong: Any = property(lambda log: 0)
    monkeypatch.setattr(VersionLog, "timestamp", wrong)
    assert {finding.kind for finding in try_table(SEED).findings} == {"timestamp: not what the log says"}


def test_opening_a_file_outside_the_table_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz import questions

    def elsewhere(folder: Path, _: Any) -> WatchedStore:
        return WatchedStore(folder / "elsewhere")

    monkeypatch.setattr(questions, "WatchedStore", elsewhere)
    assert "OutsideError" in {finding.kind.split()[0] for finding in try_table(1).findings}
