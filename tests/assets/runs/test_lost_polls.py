"""Refreshes of a table whose last poll was lost. The driver writes the bases, so that these tests need no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.runs.condition import last_poll
from deltasnap_assets.runs.condition.damage import BrokenTableError
from deltasnap_assets.runs.refresh import RefreshError
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.runs.stores import store_of
from deltasnap_core import SnapshotStore, StorageError
from deltasnap_core.store.fleet.fleet_reader import LastPolls
from tests.assets.jobs import idle_job
from tests.assets.runs.test_refresh import Refreshed
from tests.assets.runs.test_sensors import Ticks
from tests.driver_bases import use_driver_bases


class Lost(Refreshed):
    """A refreshed table of four versions."""

    @property
    def document(self) -> Path:
        return self.folder.parent / "store" / "events" / "last_poll.json"

    @property
    def row(self) -> dict[str, Any]:
        return dict(SnapshotStore.open(None, self.settings.storage).fleet(["events"]).to_pylist()[0])

    def num_runs(self) -> int:
        return self.instance.get_runs_count()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    use_driver_bases(monkeypatch)
    made = Lost(tmp_path)
    made.write(0, 3)
    return made


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
