"""The demo table: every kind of commit, the same commits in every run, continued after an interruption."""

from __future__ import annotations

import json
import shutil
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from deltasnap_assets.demo.demo_table import (
    CHECKPOINT_EVERY,
    FIRST_LIFE_VERSIONS,
    NEWS_VERSIONS,
    grow,
    rows,
    step_of,
    version_count,
)

COUNTRIES = ["it", "pl", "fr", "fr", "fr", "pl", "it", "it", "fr"]
UPDATED = date(2026, 3, 5)
"""The day that version 9 updates."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "events"
    assert list(grow(path, FIRST_LIFE_VERSIONS)) == list(range(FIRST_LIFE_VERSIONS))
    return path


def operations(path: Path) -> list[str]:
    return [entry["operation"] for entry in reversed(DeltaTable(path).history())]


def actions(path: Path, version: int) -> list[dict[str, Any]]:
    commit = path / "_delta_log" / f"{version:020}.json"
    return [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]


FIRST_LIFE = """
    CREATE TABLE +0 -0, WRITE +2:100 -0, WRITE +2:140 -0, WRITE +2:180 -0, WRITE +2:220 -0, WRITE +2:60 -0
    DELETE +1:24 -1, WRITE +2:140 -0, WRITE +2:180 -0
    UPDATE +1:250 -3, WRITE +2:60 -0, WRITE +2:100 -0
    MERGE +2:120 -2, WRITE +2:180 -0, WRITE +2:220 -0
    OPTIMIZE +6:1594 -20, WRITE +2:100 -0, WRITE +2:140 -0
    DELETE +0 -2, WRITE +2:220 -0, WRITE +2:60 -0
    ADD COLUMN +0 -0, WRITE +2:140 -0, WRITE +2:180 -0
    MERGE +2:200 -2, WRITE +2:60 -0
    WRITE +1:50 -4, WRITE +2:140 -0, WRITE +2:180 -0
    UPDATE +1:590 -6, WRITE +2:60 -0, WRITE +2:100 -0, WRITE +2:140 -0
    DELETE +1:386 -3, WRITE +2:220 -0, WRITE +2:60 -0
    WRITE +6:600 -22, WRITE +2:140 -0
    DELETE +0 -2
    RESTORE +2:170 -0, WRITE +2:60 -0, WRITE +2:100 -0
    SET TBLPROPERTIES +0 -0, WRITE +2:180 -0, WRITE +2:220 -0
    OPTIMIZE +6:1300 -16, WRITE +2:100 -0, WRITE +2:140 -0
"""
"""Operation, added files with their rows, and removed files of each version."""


def test_first_life_has_every_kind_of_commit(table: Path) -> None:
    found = []
    for version, operation in enumerate(operations(table)):
        added = [action["add"] for action in actions(table, version) if "add" in action]
        removed = sum("remove" in action for action in actions(table, version))
        rows = f":{sum(json.loads(file['stats'])['numRecords'] for file in added)}" if added else ""
        found.append(f"{operation} +{len(added)}{rows} -{removed}")
    assert found == FIRST_LIFE.strip().replace("\n    ", ", ").split(", ")


def test_changes_of_rows_name_their_days_and_keys(table: Path) -> None:
    found = {}
    for version in range(FIRST_LIFE_VERSIONS):
        (commit,) = (action["commitInfo"] for action in actions(table, version) if "commitInfo" in action)
        parameters = commit["operationParameters"]
        if predicate := parameters.get("predicate", "[]").replace("::date", "").replace("[]", ""):
            found[version] = predicate
        elif commit["operation"] == "MERGE":
            found[version] = parameters["mergePredicate"]
    assert found == {
        6: "day = '2026-03-02' AND id % 10 = 7",
        9: "day = '2026-03-05' AND kind = 'purchase'",
        12: "t.id = s.id AND t.day = s.day",
        18: "day = '2026-03-02'",
        24: "t.id = s.id AND t.day = s.day",
        26: "day = '2026-03-04'",
        29: "day = '2026-03-07' AND kind = 'purchase'",
        33: "day = '2026-03-05' AND id % 10 = 7",
        38: "day = '2026-03-04'",
    }


def test_table_describes_itself(table: Path) -> None:
    described = DeltaTable(table).metadata()
    assert (described.name, described.partition_columns) == ("events", ["day"])
    assert described.description == "What visitors of a small shop did"
    assert described.configuration == {
        "delta.deletedFileRetentionDuration": "interval 1 week",
        "delta.logRetentionDuration": "interval 60 days",
    }
    fields = {field.name: str(field.type) for field in DeltaTable(table).schema().fields}
    assert [*fields] == ["id", "day", "kind", "amount", "country"]


def test_rows_of_a_version_are_the_same_in_every_run() -> None:
    days = (date(2026, 3, 5), date(2026, 3, 6))
    kinds, amounts = ["view", "view", "cart", "cart", "purchase", "purchase", "view"], [7.49, 78.0, 146.47]
    found = rows(3, 7, days).to_pylist()
    assert [(row["id"], row["day"], row["kind"]) for row in found] == [
        (3000 + number, days[number % 2], kind) for number, kind in enumerate(kinds)
    ]
    assert [row["amount"] for row in found[:3]] == amounts
    assert "country" not in rows(20, 1, days).column_names
    assert rows(21, 9, days)["country"].to_pylist() == COUNTRIES


def test_later_life_repeats_its_operations_every_twelve_versions() -> None:
    names = [step_of(version).__name__ for version in range(FIRST_LIFE_VERSIONS, FIRST_LIFE_VERSIONS + 24)]
    year = ["append", "delete", "append", "merge", "append", "update"]
    year += ["append", "append", "compact", "append", "append", "replace_day"]
    assert names == year * 2


def test_update_lowers_amounts_by_a_tenth(table: Path) -> None:
    before, after = (DeltaTable(table, version).to_pyarrow_table(filters=[("day", "=", UPDATED)]) for version in (8, 9))
    sums = [sum(amounts(each, "purchase")) for each in (before, after)]
    assert sums[1] == pytest.approx(sums[0] * 0.9)
    assert amounts(before, "view") == amounts(after, "view")


def amounts(events: pa.Table, kind: str) -> list[float]:
    return sorted(events.filter(pc.equal(events["kind"], kind))["amount"].to_pylist())


def test_checkpoint_has_log_activity_after_it(table: Path) -> None:
    log = table / "_delta_log"
    assert [file.name[:20] for file in log.glob("*.checkpoint.parquet")] == [f"{CHECKPOINT_EVERY:020}"]
    assert FIRST_LIFE_VERSIONS - 1 - CHECKPOINT_EVERY > 10


def test_appends_carry_their_application_transaction(table: Path) -> None:
    (found,) = (action["txn"] for action in actions(table, FIRST_LIFE_VERSIONS - 1) if "txn" in action)
    assert (found["appId"], found["version"]) == ("events-ingest", FIRST_LIFE_VERSIONS - 1)
    assert abs(found["lastUpdated"] / 1000 - time.time()) < 3600


@pytest.mark.spark  # many commits of a real writer
def test_growing_again_adds_only_new_versions(table: Path) -> None:
    before = version_count(table)
    assert list(grow(table, before)) == []
    assert list(grow(table, before + NEWS_VERSIONS)) == list(range(before, before + NEWS_VERSIONS))
    assert version_count(table) == before + NEWS_VERSIONS


@pytest.mark.spark  # many commits of a real writer
def test_interrupted_life_continues_where_it_stopped(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "events"
    for version in grow(path, FIRST_LIFE_VERSIONS):
        if version == 10:
            break
    assert list(grow(path, 20)) == list(range(11, 20))
    assert operations(path) == operations(table)[:20]


@pytest.mark.spark  # many commits of a real writer
def test_later_life_commits_at_every_step(table: Path, tmp_path: Path) -> None:
    path = shutil.copytree(table, tmp_path / "events")
    before = version_count(path)
    after = before + 2 * 12  # its steps repeat every twelve versions
    assert list(grow(path, after)) == list(range(before, after))
    assert version_count(path) == after


def test_missing_table_has_no_versions(tmp_path: Path) -> None:
    assert version_count(tmp_path / "nothing") == 0
