"""Checks that are executed without the assets of their table: what they may clear."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import dagster as dg
import pytest

from deltasnap_assets.checks.check import FAILED_TO_RUN
from deltasnap_assets.runs.condition.poll_findings import LOG, RUN
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.runs.table_runs import stores_versions
from deltasnap_assets.tables.checks.run_facts import RunFacts
from deltasnap_core import Problem
from deltasnap_core.errors import StorageError
from tests.assets.jobs import idle_job
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table
from tests.builders import add, metadata, write_log
from tests.core.store.manifests import store_computed_versions, stored_table

__all__ = ["original", "table"]

OUTAGE = StorageError(path="log", reason="timeout")
FAILED = Problem.of_check(check=RUN, severity="warning", text="The last run failed.")


@pytest.mark.slow
def test_failed_run_stays_a_problem_when_a_check_is_executed_alone(table: Table) -> None:
    table.record(FAILED)
    assert table.check("checkpoint_lag").passed
    assert table.poll.problems == (FAILED,)


@pytest.mark.slow
def test_one_check_does_not_count_as_a_check_of_the_table(table: Table) -> None:
    table.check("checkpoint_lag")
    assert (table.poll.latest_version, table.poll.checked_version) == (LAST, None)


@pytest.mark.slow
def test_check_of_an_earlier_version_also_covers_the_newest_one(table: Table) -> None:
    result = table.check("checksum_agrees", "computed_state", version=1)
    assert str(result.description).startswith(f"The log differs from 1 checksum: version {LAST}: ")
    assert result.severity is dg.AssetCheckSeverity.WARN


@pytest.mark.slow
def test_wrong_checksum_of_the_newest_version_stays_an_error_after_a_run_of_an_earlier_one(table: Table) -> None:
    for version in (LAST, 1):
        table.check("checksum_agrees", "computed_state", version=version)
        assert [(each.check, each.severity) for each in table.poll.problems] == [("checksum_agrees", "error")]


def test_check_of_earlier_versions_does_not_replace_the_result_of_the_newest_one(table: Table) -> None:
    table.record(Problem.of_check(check="schema_unchanged", severity="warning", text="The schema changed."))
    for version, number in ((1, 1), (LAST, 0)):
        assert table.check("schema_unchanged", "computed_state", version=version).passed
        assert len(table.poll.problems) == number


@pytest.mark.parametrize(("name", "last"), [("schema_unchanged", 0), ("steady_growth", LAST)])
def test_check_without_versions_to_compare_with_neither_passes_nor_fails(table: Table, name: str, last: int) -> None:
    table.record(Problem.of_check(check=name, severity="warning", text="An earlier table had a problem."))
    assert table.evaluations(name, "computed_state", (0, last)) == []
    assert len(table.poll.problems) == int(last < LAST)


def test_check_of_versions_has_results_only_for_those_that_can_be_compared(table: Table) -> None:
    results = table.evaluations("schema_unchanged", "computed_state", (0, LAST))
    assert sorted(str(each.partition) for each in results) == ["1", "2", "3", "4", "5", "None"]
    assert all(each.passed for each in results)


def test_check_of_one_version_has_its_result_only(table: Table) -> None:
    results = table.evaluations("schema_unchanged", "computed_state", partition=3)
    assert [(each.partition, each.metadata["versions_judged"].value) for each in results] == [("3", 1)]


@pytest.mark.slow
def test_failed_version_passes_when_a_later_one_does(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.write(0, 1)
    column = {"name": "x", "type": "long", "nullable": True, "metadata": {}}
    changed = metadata(schemaString=json.dumps({"type": "struct", "fields": [column]}))
    write_log(table.path, {2: [changed], 3: [add("3")], 4: [add("4")]})
    store_computed_versions(stored_table(tmp_path / "store"), log_of(table.table), range(5))

    def results(first: int, last: int) -> dict[str | None, bool]:
        found = table.evaluations("schema_unchanged", "computed_state", (first, last))
        settled = [each.description or "" for each in found if each.partition == "2" and each.passed]
        assert all(text == "Version 4 passes again." for text in settled)
        return {each.partition: each.passed for each in found}

    assert results(1, 2) == {"1": True, "2": False, None: False}
    assert results(3, 4) == {"2": True, "3": True, "4": True, None: True}
    assert results(3, 4) == {"3": True, "4": True, None: True}


def test_check_of_versions_that_are_not_stored_is_not_evaluated(table: Table) -> None:
    assert table.evaluations("schema_unchanged", "computed_state", (LAST + 1, LAST + 2)) == []


def test_check_of_unreadable_versions_fails_with_the_reason(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFacts, "states", property(Mock(side_effect=StorageError(path="store", reason="timeout"))))
    results = table.evaluations("schema_unchanged", "computed_state", partition=LAST)
    assert [each.passed for each in results] == [False]
    assert str(results[0].description).startswith(FAILED_TO_RUN)
    assert "timeout" in str(results[0].description)
    assert [problem.check for problem in table.poll.problems] == ["schema_unchanged"]


@pytest.mark.parametrize(("error", "text"), [(KeyError("x"), f"{FAILED_TO_RUN}KeyError: 'x'"), (OUTAGE, str(OUTAGE))])
def test_check_that_raises_is_an_error(
    table: Table, error: Exception, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFacts, "segment", property(Mock(side_effect=error)))
    result = table.check("checkpoint_lag")
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert str(result.description).partition("\n")[0] == text
    assert [problem.severity for problem in table.poll.problems] == ["error"]


def test_check_of_a_shorter_log_warns_of_the_lost_versions(table: Table) -> None:
    table.record()
    table.commit(LAST).unlink()
    result = table.check("contiguous_log")
    assert not result.passed
    assert f"Version {LAST} is gone" in str(result.description)
    assert [problem.check for problem in table.poll.problems] == [LOG]


def test_check_of_a_recreated_table_does_not_use_stored_versions(table: Table) -> None:
    table.record()
    shutil.rmtree(table.path)
    table.write(0, LAST, table_id="other")
    table.commit(2).write_bytes(b"{nope")
    assert not table.check("contiguous_log").passed
    assert store_of(table.settings).fleet(["events"])["condition"][0].as_py() == "broken"


@pytest.mark.slow
def test_check_reads_the_whole_log_while_it_has_faults(table: Table) -> None:
    content = table.commit(2).read_bytes()
    table.commit(2).write_bytes(content.replace(b'"add"', b'"\x00dd"'))
    assert not table.check("contiguous_log").passed  # the first examination
    assert not table.check("contiguous_log").passed
    table.commit(2).write_bytes(content)
    assert table.check("contiguous_log").passed
    assert table.poll.problems == ()


@pytest.mark.parametrize(
    ("tags", "assets", "checks", "expected"),
    [
        (run_tags("events", 0, 3), None, None, True),
        ({"dagster/partition": "3"}, {"all_files"}, {"small_files"}, True),
        ({"dagster/partition": "3"}, None, {"steady_growth"}, False),
        ({}, None, None, False),
    ],
)
def test_run_stores_versions_if_it_has_partitions_and_assets(
    tags: dict[str, str], assets: set[str] | None, checks: set[str] | None, expected: bool
) -> None:
    instance = dg.DagsterInstance.ephemeral()
    run = instance.create_run_for_job(idle_job, tags=tags)
    chosen = run._replace(
        asset_selection=None if assets is None else frozenset(dg.AssetKey(["events", name]) for name in assets),
        asset_check_selection=None
        if checks is None
        else frozenset(dg.AssetCheckKey(dg.AssetKey(["events", "computed_state"]), name) for name in checks),
    )
    assert stores_versions(chosen) is expected
