"""The demo table: every kind of commit, the same commits in every run, continued after an interruption."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from deltasnap_assets.demo.demo_table import CHECKPOINT_EVERY, FIRST_LIFE_VERSIONS, NEWS_VERSIONS, grow, version_count


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


def test_first_life_has_every_kind_of_commit(table: Path) -> None:
    found = Counter(operations(table))
    assert len(operations(table)) == FIRST_LIFE_VERSIONS >= 40
    assert found.keys() >= {"CREATE TABLE", "WRITE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE", "RESTORE", "ADD COLUMN"}


def test_first_life_overwrites_the_table_and_restores_files(table: Path) -> None:
    removed = [sum("remove" in action for action in actions(table, version)) for version in range(FIRST_LIFE_VERSIONS)]
    assert removed[36] > 10
    assert [sum("add" in action for action in actions(table, version)) for version in (38, 39)] == [0, 2]


def test_updates_and_deletes_change_files_of_one_day(table: Path) -> None:
    changed: dict[str, list[set[object]]] = {"UPDATE": [], "DELETE": []}
    for version in range(FIRST_LIFE_VERSIONS):
        operation = next(action["commitInfo"] for action in actions(table, version) if "commitInfo" in action)
        removed = [action["remove"] for action in actions(table, version) if "remove" in action]
        if operation["operation"] in changed:
            changed[operation["operation"]].append({file["partitionValues"]["day"] for file in removed})
    assert all(changed.values())
    assert {len(days) for each in changed.values() for days in each} == {1}


def test_checkpoint_has_log_activity_after_it(table: Path) -> None:
    log = table / "_delta_log"
    assert [file.name[:20] for file in log.glob("*.checkpoint.parquet")] == [f"{CHECKPOINT_EVERY:020}"]
    assert FIRST_LIFE_VERSIONS - 1 - CHECKPOINT_EVERY > 10


def test_appends_carry_their_application_transaction(table: Path) -> None:
    assert DeltaTable(table).transaction_version("events-ingest") == FIRST_LIFE_VERSIONS - 1


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
