"""Some of the fuzzer's tables in every run; `python -m tests.fuzz` tries thousands."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.fuzz.judge import try_table
from tests.fuzz.made_tables import make_table
from tests.fuzz.meanings import Mutation
from tests.fuzz.questions import limited_memory

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Other tables with DELTASNAP_FUZZ_SEED, more of them with DELTASNAP_FUZZ_COUNT.
SEED = int(os.environ.get("DELTASNAP_FUZZ_SEED", "1"))
TABLES = int(os.environ.get("DELTASNAP_FUZZ_COUNT", "200"))
TABLES_A_TEST = 20


@pytest.mark.parametrize("first", range(SEED, SEED + 40, TABLES_A_TEST))
def test_log_tells_the_truth_or_refuses(first: int) -> None:
    with limited_memory():
        findings = [finding for seed in range(first, first + TABLES_A_TEST) for finding in try_table(seed)]
    assert [str(finding) for finding in findings] == []


@pytest.mark.spark
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("first", range(SEED, SEED + TABLES, TABLES_A_TEST))
def test_replay_and_store_tell_the_truth_or_refuse(first: int, spark: SparkSession) -> None:
    findings = [finding for seed in range(first, first + TABLES_A_TEST) for finding in try_table(seed, spark)]
    assert [str(finding) for finding in findings] == []


def test_table_of_a_seed_is_always_the_same(tmp_path: Path) -> None:
    contents = []
    for name in "ab":
        table = make_table(tmp_path / name, Random(7))
        contents.append({file.name: file.read_bytes() for file in table.files()})
    assert contents[0] == contents[1]


@pytest.mark.parametrize("seed", range(3))
def test_wrong_answer_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltasnap_core.log.version_log import VersionLog
    from tests.fuzz import judge

    nothing: list[Mutation] = []
    monkeypatch.setattr(judge, "mutated", lambda *_: nothing)
    assert try_table(seed) == []
    wrong: Any = property(lambda log: 0)
    monkeypatch.setattr(VersionLog, "timestamp", wrong)
    assert {finding.kind for finding in try_table(seed)} == {"timestamp: not what the log says"}
