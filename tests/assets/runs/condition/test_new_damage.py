"""Damage that appears in a log between two examinations: the schedule and `deltasnap refresh` report it at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs import decide
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.fault_texts import FAILED_RUN
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError, condition_after, condition_now
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.planning.known_table import last_observation, observation_tags
from deltasnap_assets.runs.planning.names import run_tags, table_key
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.runs.stores import log_of
from deltasnap_core.errors import StorageError
from tests.assets.followed_table import EVENTS, FollowedTable
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks
from tests.fast_dagster import local_instance


class Examined(Ticks):
    """A stored, materialized and checked table of versions 0 to 5, with a page. Its log was examined today."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        super().__init__(folder)
        self.instance = instance
        self.write(0, 5)
        self.store_versions(range(6), computed=True)
        self.tick()
        tags = observation_tags(self.instance, self.table, 5, "table-id")
        numbers: dict[str, Any] = {"latest_version": 5, "health": "OK", "num_rows": 7}
        self.instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), metadata=numbers, tags=tags))
        record(self.store, self.table, PollFindings(checked_version=5))
        assert isinstance(self.ask_schedule(), dg.SkipReason)

    def refresh(self) -> tuple[int, ...]:
        return refresh_table(build_definitions(self.settings), self.settings, self.table, self.instance)

    @property
    def errors(self) -> list[str]:
        """The recorded errors. With any, the fleet shows the table as broken."""
        return [problem.text for problem in self.poll.problems if problem.mark == "error"]

    @property
    def page(self) -> dict[str, Any]:
        last = last_observation(self.instance, EVENTS)
        assert last is not None
        return {name: entry.value for name, entry in last.metadata.items()}


@pytest.fixture
def examined(tmp_path: Path) -> Iterator[Examined]:
    with local_instance(tmp_path) as instance:
        yield Examined(tmp_path / "events", instance)


GAPS: dict[str, Callable[[Examined], object]] = {
    "versions 6 to 7 cannot be loaded": lambda table: shutil.copy(table.commit(5), table.commit(7)),
    "versions 3 to 5 cannot be loaded": lambda table: table.commit(3).unlink(),
    "cannot be loaded": lambda table: shutil.copy(table.commit(5), table.commit(2**63 - 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "expected"), [*(("refresh", gap) for gap in GAPS), ("schedule", next(iter(GAPS)))])
def test_gap_that_appears_after_an_examination_is_reported_at_once(
    examined: Examined, asked: str, expected: str
) -> None:
    assert not examined.errors
    GAPS[expected](examined)
    if asked == "schedule":
        examined.ask_schedule()
    else:
        with pytest.raises(BrokenTableError, match=expected):
            examined.refresh()
    (error,) = examined.errors
    assert expected in error


@pytest.mark.slow
def test_refresh_reports_a_damaged_checkpoint_that_appears_after_an_examination(examined: Examined) -> None:
    file = examined.checkpoint(5)
    os.truncate(file, file.stat().st_size // 2)
    examined.refresh()
    assert "The checkpoint of version 5 cannot be read" in examined.page["health"]


@pytest.mark.slow
def test_refresh_without_new_commits_reads_a_short_log_again(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined.damage(3)
    monkeypatch.setattr(decide, "SHORT_LOG", 5)
    assert examined.refresh() == ()
    assert not examined.errors
    monkeypatch.setattr(decide, "SHORT_LOG", 6)
    with pytest.raises(BrokenTableError, match="Version 3 cannot be read") as raised:
        examined.refresh()
    assert not raised.value.problems  # they are those beside the log
    assert examined.page["numbers_of"] == "version 5, stored before the damage"


@pytest.mark.slow
def test_page_of_a_damaged_table_keeps_its_numbers_and_is_healthy_after_the_repair(examined: Examined) -> None:
    lost = examined.commit(3)
    content = lost.read_bytes()
    lost.unlink()
    examined.ask_schedule()
    assert "versions 3 to 5 cannot be loaded" in examined.page["health"]
    assert (examined.page["num_rows"], examined.page["latest_version"]) == (7, 5)
    lost.write_bytes(content)
    examined.ask_schedule()
    assert examined.page["health"].startswith("The log no longer has faults")
    assert examined.page["num_rows"] == 7
    assert not examined.errors


@pytest.mark.parametrize(
    ("store", "folder"), [("lake", "lake_tables/events"), ("lake", "lake/events"), ("lake/events/store", "lake/events")]
)
def test_failure_of_a_table_below_or_beside_the_store_is_not_a_failure_of_the_store(
    tmp_path: Path, store: str, folder: str
) -> None:
    table = FollowedTable(tmp_path / folder, storage=tmp_path / store)
    table.write(0, 1)
    failure = StorageError(path=f"{log_of(table.table).log_path}/{0:020}.json", reason="timeout")
    assert condition_after(table.settings, table.table, failure).latest == 1
    for path in (table.store.root, f"{table.store.root}/manifests"):
        with pytest.raises(StorageError):
            condition_after(table.settings, table.table, StorageError(path=path, reason="timeout"))


@pytest.mark.slow
def test_failure_of_a_commit_that_was_deleted_ends_with_the_next_refresh(examined: Examined) -> None:
    examined.damage(6)
    tags, status = run_tags("events", 6, 6), dg.DagsterRunStatus.FAILURE
    examined.instance.create_run_for_job(idle_job, status=status, tags=tags)
    with pytest.raises(BrokenTableError, match="Version 6 cannot be read"):
        examined.refresh()
    examined.commit(6).unlink()
    examined.refresh()
    assert FAILED_RUN not in examined.page
    assert examined.page["health"].startswith("The log no longer has faults")
    assert {"log", "run"}.isdisjoint(each.check for each in examined.poll.problems)


@pytest.mark.slow
def test_failed_run_of_an_idle_table_is_observed_once(examined: Examined) -> None:
    tags, status = run_tags("events", 5, 5), dg.DagsterRunStatus.FAILURE
    run = examined.instance.create_run_for_job(idle_job, status=status, tags=tags)
    examined.tick()
    assert examined.page[FAILED_RUN] == run.run_id
    observed = last_observation(examined.instance, EVENTS)
    for _ in range(2):
        examined.tick()
        assert last_observation(examined.instance, EVENTS) == observed


@pytest.mark.slow
def test_page_of_a_stored_version_that_is_damaged_says_so_and_names_the_file_without_its_folder(
    examined: Examined,
) -> None:
    examined.damage(3)
    condition = condition_now(examined.settings, examined.table)
    report_condition(examined.instance, examined.settings, examined.table, condition)
    assert (examined.page["can_be_loaded"], examined.page["numbers_of"]) == (
        "0 to 2",
        "version 5, stored before the damage",
    )
    assert f" {3:020}.json, line 1: " in examined.page["health"]
    assert "/_delta" not in examined.page["health"].replace("\\", "")
