"""Refreshes that evaluate checks again: their results were lost, or are problems.

The driver writes the bases, so that these tests need no JVM.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.registry import CheckSettings
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.condition import last_poll
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.damage import BrokenTableError
from deltasnap_assets.runs.refresh import RefreshError
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.runs.table_runs import failed_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.tables.pages.table_observation import health_of
from deltasnap_core import SnapshotStore, StorageError
from deltasnap_core.store.fleet.fleet_reader import LastPolls
from tests.assets.jobs import idle_job
from tests.assets.runs.test_refresh import STATS, Refreshed
from tests.assets.runs.test_sensors import Ticks
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import use_driver_bases

HOURS = 1_000_000  # the commits of the builders are old


class Lost(Refreshed):
    """A refreshed table of four versions."""

    @property
    def document(self) -> Path:
        return self.folder.parent / "store" / "events" / "last_poll.json"

    @property
    def row(self) -> dict[str, Any]:
        return dict(SnapshotStore.open(None, self.settings.storage).fleet(["events"]).to_pylist()[0])

    def configure(self, **settings: Any) -> None:
        self.table = TableSettings(name="events", path=str(self.folder), **settings)
        self.settings = Settings(storage=self.settings.storage, tables=(self.table,))
        self.defs = build_definitions(self.settings)

    @property
    def patience_hours(self) -> int | None:
        poll = store_of(self.settings).polls.read("events")
        assert poll is not None
        return None if poll.stale_rule is None else poll.stale_rule.patience_ms // 3_600_000

    def num_runs(self) -> int:
        return self.instance.get_runs_count()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    use_driver_bases(monkeypatch)
    made = Lost(tmp_path)
    made.write(0, 3)
    return made


@pytest.fixture
def lagging(table: Lost) -> Lost:
    """The table, whose checkpoint lags."""
    table.configure(checks=CheckSettings(max_commits_since_checkpoint=3, fresh_within_hours=HOURS))
    table.refresh()
    assert (table.row["condition"], table.row["check"]) == ("warned", "checkpoint_lag")
    return table


@pytest.mark.parametrize("content", [None, b"{"], ids=["deleted", "damaged"])
def test_refresh_evaluates_the_checks_again_if_their_results_are_lost(table: Lost, content: bytes | None) -> None:
    table.refresh()
    expected = table.row["condition"], table.row["check"], table.row["vacuum_bytes"]
    table.document.unlink()
    if content is not None:
        table.document.write_bytes(content)
    assert table.row["condition"] == "unknown"
    assert table.refresh() == (3,)
    assert (table.row["condition"], table.row["check"], table.row["vacuum_bytes"]) == expected


def test_refresh_evaluates_the_checks_again_if_their_results_could_not_be_written(
    table: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.refresh()
    table.write(4, 4)

    def refuse(polls: LastPolls, name: str, _: object) -> None:
        raise StorageError(path=name, reason="No space left on device")

    with monkeypatch.context() as full:
        full.setattr(LastPolls, "touch", refuse)
        assert table.refresh() == (4,)
    assert table.refresh() == (4,)
    poll = store_of(table.settings).polls.read("events")
    assert poll is not None
    assert poll.checked_version == 4


def test_refresh_finds_the_error_of_a_check_again_after_its_record_is_lost(table: Lost) -> None:
    first = [json.loads(line) for line in (table.folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    actions = {name: action[name] for action in first for name in ("metaData", "protocol") if name in action}
    wrong = {"tableSizeBytes": 5, "numFiles": 99, "numMetadata": 1, "numProtocol": 1}
    checksum = {**wrong, "metadata": actions["metaData"], "protocol": actions["protocol"]}
    (table.folder / "_delta_log" / f"{3:020d}.crc").write_text(json.dumps(checksum))
    with pytest.raises((RefreshError, BrokenTableError), match="checksum") as raised:
        table.refresh()
    assert getattr(raised.value, "stored", None) == (0, 1, 2, 3)
    table.document.unlink()
    with pytest.raises((RefreshError, BrokenTableError), match="checksum"):
        table.refresh()
    assert table.row["condition"] == "broken"


def test_refresh_without_new_commits_starts_no_run_if_the_results_of_the_checks_are_known(table: Lost) -> None:
    table.table = table.table.model_copy(update={"max_versions_per_run": 3})
    assert table.refresh() == (0, 1, 2, 3)
    before = table.num_runs()
    assert before == 2
    assert table.refresh() == ()
    assert table.num_runs() == before


def test_outage_that_only_a_refresh_saw_is_over_with_the_next_tick(table: Lost) -> None:
    table.refresh()
    healthy = table.row["condition"]
    ticks = Ticks(table.folder)
    ticks.sensor = new_commits_sensor(table.settings, table.table, [idle_job])
    ticks.instance = table.instance
    for _ in range(2):
        ticks.tick()
    away = table.folder.rename(table.folder.with_name("away"))
    with pytest.raises(BrokenTableError):
        table.refresh()
    assert table.row["condition"] == "broken"
    away.rename(table.folder)
    last_poll._asked_if_broken.clear()
    ticks.tick()
    assert table.row["condition"] == healthy


def test_refresh_ends_a_warning_after_its_remedy(lagging: Lost) -> None:
    actions = [protocol(), metadata(), *(add(f"a{version}.parquet", stats=STATS) for version in range(4))]
    write_checkpoint(lagging.folder / "_delta_log", 3, "classic", actions)
    assert lagging.refresh() == (3,)
    assert lagging.row["condition"] == "healthy"
    assert (health_of(lagging.instance, "events") or "").startswith("OK: ")
    assert lagging.refresh() == ()


def test_refresh_ends_a_warning_after_its_limit_is_raised(lagging: Lost) -> None:
    lagging.configure(checks=CheckSettings(max_commits_since_checkpoint=4, fresh_within_hours=HOURS))
    assert lagging.refresh() == (3,)
    assert lagging.row["condition"] == "healthy"


def test_refresh_of_a_table_with_a_warning_still_reads_its_log_for_faults(lagging: Lost) -> None:
    (lagging.folder / "_delta_log" / f"{1:020d}.json").write_bytes(b"{nope\n")
    with pytest.raises(BrokenTableError, match="Version 1 cannot be read"):
        lagging.refresh()


def test_tick_requests_no_run_because_of_a_warning(lagging: Lost) -> None:
    sensor = next(sensor for sensor in lagging.defs.sensors or () if sensor.name == "events_new_commits")
    cursor = None
    for _ in range(2):
        result = sensor(dg.build_sensor_context(instance=lagging.instance, cursor=cursor))
        assert isinstance(result, dg.SensorResult)
        assert not result.run_requests
        cursor = result.cursor
    assert lagging.row["condition"] == "warned"


def test_patience_counts_until_it_is_no_longer_configured(table: Lost) -> None:
    table.configure(checks=CheckSettings(fresh_within_hours=1e-9))
    table.refresh()
    assert table.patience_hours == 0
    table.configure()
    assert table.refresh() == (3,)
    assert table.patience_hours == 24
    assert table.refresh() == ()


@pytest.mark.parametrize("is_noted", [False, True])
def test_refresh_ends_the_warning_of_a_killed_run_that_recorded_all_its_versions(table: Lost, is_noted: bool) -> None:
    table.refresh()
    (run,) = table.instance.get_runs()
    table.instance.report_run_failed(run, "The process of this run no longer exists.")
    if is_noted:
        failed = failed_run(table.instance, "events")
        report_condition(table.instance, table.settings, table.table, None, failed)
        assert (table.row["condition"], table.row["check"]) == ("warned", "run")
        assert "retry" not in table.row["advice"]
    assert table.refresh() == (3,)
    assert table.row["check"] != "run"
    assert table.refresh() == ()
