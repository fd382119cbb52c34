"""What a check of a table records: severity, description, numbers. No Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.check import Severity, Verdict
from deltasnap_assets.checks.registry import SMALL_FILES
from deltasnap_assets.runs.condition import check_events
from deltasnap_assets.runs.condition.check_events import report_freshness
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.checks.asset_checks import _result
from deltasnap_assets.tables.checks.run_facts import versions_of_run
from deltasnap_core import TableLog
from deltasnap_core.support import commit_file
from tests.assets.followed_table import EVENTS
from tests.builders import metadata, mtime_of, protocol, write_log
from tests.checkpoint_files import write_checkpoint

HOUR_MS = 3_600_000

KEY = dg.AssetCheckKey(dg.AssetKey(["events", "all_files"]), "small_files")


def result_of(**values: Any) -> dg.AssetCheckResult:
    return _result(EVENTS, SMALL_FILES, Verdict(description="told", **values))


@pytest.mark.parametrize(
    ("reported", "severity"),
    [
        ("error", dg.AssetCheckSeverity.ERROR),
        ("warning", dg.AssetCheckSeverity.WARN),
        (None, dg.AssetCheckSeverity.WARN),
    ],
    ids=str,
)
def test_failed_check_is_an_error_only_for_a_fault_of_the_log(
    reported: Severity | None, severity: dg.AssetCheckSeverity
) -> None:
    failed = result_of(passed=False, severity=reported, numbers={"files": 3})
    assert (failed.passed, failed.severity) == (False, severity)
    assert (failed.asset_key, failed.check_name) == (KEY.asset_key, KEY.name)
    assert failed.description == f"told\n\nWhat to do: {SMALL_FILES.advice}"
    assert {name: entry.value for name, entry in failed.metadata.items()} == {"files": 3}


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({}, [7]),
        ({"dagster/partition": "4"}, [4]),
        ({"dagster/partition": "5"}, []),
        (run_tags("events", 3, 6), [3, 4, 6]),
        (run_tags("events", 8, 9), []),
    ],
)
def test_checks_judge_the_stored_versions_of_their_run(tags: dict[str, str], expected: list[int]) -> None:
    context: Any = SimpleNamespace(run=SimpleNamespace(tags=tags))
    snapshots: Any = SimpleNamespace(stored_versions=lambda table: [2, 3, 4, 6, 7] if table.name == "events" else [])
    table: Any = SimpleNamespace(name="events")
    assert versions_of_run(context, snapshots, table) == expected
    snapshots.stored_versions = lambda _: []
    assert versions_of_run(context, snapshots, table) == []


def test_passed_check_has_no_advice() -> None:
    assert result_of(passed=True).description == "told"


def test_check_prefers_the_advice_of_its_verdict() -> None:
    assert str(result_of(passed=False, advice="Restore it.").description).endswith("What to do: Restore it.")


@pytest.mark.parametrize(("now_ms", "passes"), [(0, True), (24 * HOUR_MS, True), (24 * HOUR_MS + 1, False)])
def test_age_of_the_last_commit_is_recorded_without_a_run(
    now_ms: int, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_events, "system_clock", lambda: mtime_of(1) + now_ms)
    write_log(tmp_path, {0: [protocol(), metadata()], 1: []})
    recorded = freshness(tmp_path)
    assert recorded is not None
    assert (recorded.passed, recorded.severity) == (passes, dg.AssetCheckSeverity.WARN)


def test_freshness_of_a_log_without_commits_is_not_recorded(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t", {0: [protocol(), metadata()]})
    write_checkpoint(log, 0, "classic", [protocol(), metadata()])
    (log / commit_file(0)).unlink()
    assert freshness(tmp_path / "t") is None


def freshness(path: Path) -> dg.AssetCheckEvaluation | None:
    """Return the recorded result of the check `fresh_table`; None: nothing was recorded."""
    instance = dg.DagsterInstance.ephemeral()
    report_freshness(instance, TableSettings(name="events", path=str(path)), TableLog.for_path(path).list(), None)
    key = dg.AssetCheckKey(dg.AssetKey(["events", "delta_log"]), "fresh_table")
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=2)
    return records[0].evaluation if records else None
