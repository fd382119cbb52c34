"""Refreshes that evaluate checks again: their results were lost, or are problems.

The driver writes the bases, so that these tests need no JVM.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError
from deltasnap_assets.runs.refresh import RefreshError
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.runs.table_runs import failed_run
from deltasnap_assets.tables.pages.table_observation import health_of
from tests.assets.followed_table import EVENTS, forget_looks
from tests.assets.jobs import idle_job
from tests.assets.runs.refresh_builders import STATS, Refreshed
from tests.assets.runs.sensors_builders import Ticks
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import copy_of

HOURS = 1_000_000  # the commits of the builders are old


class Lost(Refreshed):
    """A refreshed table of four versions."""

    @property
    def document(self) -> Path:
        return self.storage / "events" / "last_poll.json"

    @property
    def patience_hours(self) -> int | None:
        patience = self.poll.stale_after_ms
        return None if patience is None else patience // 3_600_000


LAGS = CheckSettings(max_commits_since_checkpoint=3, fresh_within_hours=HOURS)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lost]:
    """Two refreshed tables: one is healthy, the checkpoint of the other one lags."""
    made = {name: Lost(tmp_path_factory.mktemp(name)) for name in ("healthy", "lagging")}
    made["lagging"].configure(checks=LAGS)
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)
        for each in made.values():
            each.write(0, 3)
            assert each.refresh() == (0, 1, 2, 3)
    return made


def copied(original: Lost, folder: Path) -> Lost:
    """Return a refreshed table with its store and its instance, without the time to refresh it."""
    shutil.copytree(original.path.parent, folder, dirs_exist_ok=True)
    copy = Lost(folder)
    copy.instance = copy_of(original.instance)
    return copy


@pytest.fixture
def table(originals: dict[str, Lost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    """The table after a refresh."""
    use_driver_bases(monkeypatch)
    return copied(originals["healthy"], tmp_path)


@pytest.fixture
def lagging(originals: dict[str, Lost], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lost:
    """The table after a refresh that found that its checkpoint lags."""
    use_driver_bases(monkeypatch)
    made = copied(originals["lagging"], tmp_path)
    made.configure(checks=LAGS)
    assert (made.row["condition"], made.row["check"]) == ("warned", "checkpoint_lag")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("content", [None, b"{"], ids=["deleted", "damaged"])
def test_refresh_evaluates_the_checks_again_if_their_results_are_lost(table: Lost, content: bytes | None) -> None:
    expected = table.row["condition"], table.row["check"], table.row["vacuum_bytes"]
    table.document.unlink()
    if content is not None:
        table.document.write_bytes(content)
    assert table.row["condition"] == "unknown"
    assert table.refresh() == (3,)
    assert (table.row["condition"], table.row["check"], table.row["vacuum_bytes"]) == expected


@pytest.mark.slow
def test_refresh_finds_an_error_of_a_check_whose_record_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    table = Lost(tmp_path)
    table.write(0, 1)
    first = [json.loads(line) for line in table.commit(0).read_text().splitlines()]
    actions = {name: action[name] for action in first for name in ("metaData", "protocol") if name in action}
    wrong = {"tableSizeBytes": 5, "numFiles": 99, "numMetadata": 1, "numProtocol": 1}
    checksum = {**wrong, "metadata": actions["metaData"], "protocol": actions["protocol"]}
    (table.log / f"{1:020d}.crc").write_text(json.dumps(checksum))
    with pytest.raises((RefreshError, BrokenTableError), match="checksum") as raised:
        table.refresh()
    assert getattr(raised.value, "stored", None) == (0, 1)
    table.document.unlink()
    with pytest.raises((RefreshError, BrokenTableError), match="checksum"):
        table.refresh()
    assert table.row["condition"] == "broken"


@pytest.mark.slow
def test_refresh_that_fails_on_a_damaged_manifest_says_how_to_repair_it(table: Lost) -> None:
    (manifest,) = (table.document.parent / "manifests").glob("*2.json")
    manifest.write_bytes(b"{")
    table.write(4, 4)
    with pytest.raises(RefreshError, match=f"{manifest.name}.* Move the file away and refresh the table"):
        table.refresh()
    assert "Move the file away and refresh the table" in table.row["reason"]
    manifest.rename(table.path / "moved")
    assert 2 in table.refresh()
    assert table.row["condition"] == "stale"


@pytest.mark.slow
def test_outage_that_only_a_refresh_saw_is_over_with_the_next_tick(table: Lost) -> None:
    healthy = table.row["condition"]
    ticks = Ticks(table.path)
    ticks.sensor = new_commits_sensor(table.settings, table.table, [idle_job])
    ticks.instance = table.instance
    for _ in range(2):
        ticks.tick()
    away = table.path.rename(table.path.with_name("away"))
    with pytest.raises(BrokenTableError):
        table.refresh()
    assert table.row["condition"] == "broken"
    away.rename(table.path)
    forget_looks()
    ticks.tick()
    assert table.row["condition"] == healthy


@pytest.mark.slow
def test_refresh_ends_a_warning_after_its_remedy(lagging: Lost) -> None:
    actions = [protocol(), metadata(), *(add(f"a{version}.parquet", stats=STATS) for version in range(4))]
    write_checkpoint(lagging.log, 3, "classic", actions)
    assert lagging.refresh() == (3,)
    assert lagging.row["condition"] == "healthy"
    assert (health_of(lagging.instance, EVENTS) or "").startswith("OK: ")
    assert lagging.refresh() == ()


@pytest.mark.slow
def test_refresh_ends_the_warning_of_a_killed_run_that_recorded_all_its_versions(table: Lost) -> None:
    (run,) = table.instance.get_runs()
    table.instance.report_run_failed(run, "The process of this run no longer exists.")
    failed = failed_run(table.instance, EVENTS)
    report_condition(table.instance, table.settings, table.table, None, failed)
    assert (table.row["condition"], table.row["check"]) == ("warned", "run, fresh_table")
    assert "retry" not in table.row["advice"]
    assert table.refresh() == (3,)
    assert "run" not in str(table.row["check"])
    assert table.refresh() == ()
