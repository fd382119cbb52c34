"""What the checks of a run record: severity, description, numbers, and one verdict for several versions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest

from deltasnap_assets.checks.check import Severity, TableCheck, Verdict, nothing_to_compare
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.commits import recent_commit_times
from deltasnap_assets.checks.registry import CHECKPOINT_LAG, EXPIRED_TOMBSTONES, SCHEMA_UNCHANGED, SMALL_FILES
from deltasnap_assets.runs.condition import check_events
from deltasnap_assets.runs.condition.check_events import report_freshness
from deltasnap_assets.runs.condition.poll_findings import VERSIONS, PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.tables.checks.asset_checks import _result
from deltasnap_assets.tables.checks.recorded_results import record_table_checks
from deltasnap_assets.tables.checks.run_facts import HISTORY, RunFacts, versions_of_run
from deltasnap_assets.tables.checks.version_checks import verdict_of_run
from deltasnap_assets.tables.run_conditions import RunConditions
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import DeltaHistoryManager, DeltaLog, Problem, SnapshotState, SnapshotStore, TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from deltasnap_core.support import LastPoll
from tests.assets.followed_table import EVENTS
from tests.assets.jobs import idle_job
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import (
    LOG_PATH,
    MemoryLogStore,
    add,
    commit_info,
    commits,
    metadata,
    mtime_of,
    protocol,
    timed_protocol,
    write_log,
)
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import use_driver_bases

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
def test_only_a_fault_of_the_log_makes_an_error(reported: Severity | None, severity: dg.AssetCheckSeverity) -> None:
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


__all__ = ["original", "table"]

WARNED = CHECKPOINT_LAG, Verdict(passed=False, description="Late.", advice="Write one.")
PROBLEM = Problem.of_check(check="checkpoint_lag", severity="warning", text="Late.", advice="Write one.")


def recorded(table: Table, *verdicts: tuple[TableCheck, Verdict], are_all: bool = False) -> LastPoll:
    no_session: Any = None
    run = table.instance.create_run_for_job(idle_job)
    facts = RunFacts(table=table.table, snapshots=RunSnapshots(table.settings, no_session), versions=())
    record_table_checks(facts, dict(verdicts), run, are_all=are_all, ends_failure=True)
    return table.poll


def test_results_are_those_of_the_newest_stored_version(table: Table) -> None:
    vacuum = EXPIRED_TOMBSTONES, Verdict(passed=True, description="Few.", numbers={"expired_bytes": 7})
    table.write(LAST + 1, LAST + 1)
    found = recorded(table, WARNED)
    assert (found.latest_version, found.checked_version, found.facts_version) == (LAST + 1, None, None)
    found = recorded(table, vacuum, are_all=True)
    assert (found.checked_version, found.facts_version, found.vacuum_bytes) == (LAST, LAST, 7)
    assert found.time_travel_bytes == 0  # no file was removed


def test_last_commit_has_its_stored_time_and_before_that_the_time_of_its_file(table: Table) -> None:
    os.utime(table.commit(LAST), (1, 1))
    assert recorded(table).last_commit_ms == mtime_of(LAST)
    table.write(LAST + 1, LAST + 1)
    assert recorded(table).last_commit_ms == mtime_of(LAST + 1)


def test_log_without_versions_has_no_last_commit(table: Table) -> None:
    for commit in (table.log).glob("*.json"):
        commit.unlink()
    found = recorded(table)
    assert (found.latest_version, found.last_commit_ms) == (None, None)


def test_problem_of_a_check_that_was_not_evaluated_ends_if_nothing_is_wrong(table: Table) -> None:
    assert recorded(table, WARNED).problems == (PROBLEM,)
    assert recorded(table).problems == (PROBLEM,)
    assert recorded(table, (CHECKPOINT_LAG, nothing_to_compare("none"))).problems == ()


def test_run_without_versions_does_not_end_the_problem_that_none_is_selected(table: Table) -> None:
    none = Problem.of_check(check=VERSIONS, severity="warning", text="None is selected.")
    record(table.store, table.table, PollFindings(problems={VERSIONS: (none,)}))
    assert recorded(table).problems == (none,)


def test_unreadable_condition_is_an_error_until_the_next_run(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as denied:
        denied.setattr(
            RunConditions, "of", Mock(side_effect=StorageError(path="s3://lake/events", reason="denied\x1b[1m"))
        )
        found = recorded(table, WARNED)
    assert {(each.check, each.severity) for each in found.problems} == {
        ("checkpoint_lag", "warning"),
        ("checks", "error"),
    }
    (error,) = (each for each in found.problems if each.severity == "error")
    assert "denied" in error.text
    assert "\x1b" not in error.text
    assert recorded(table).problems == (PROBLEM,)


def wider() -> SnapshotState:
    metadata = state().metadata
    assert metadata is not None
    schema = json.loads(metadata.schema_string or "")
    schema["fields"].append({"name": "new", "type": "string", "nullable": True, "metadata": {}})
    return state(metadata=replace(metadata, schema_string=json.dumps(schema)))


def facts_of(states: Mapping[int, SnapshotState | None], *versions: int) -> RunFacts:
    """Return the facts of a run of versions. states: of all stored versions; None: unknown."""
    snapshots: Any = SimpleNamespace(
        stored_versions=lambda _: list(states), state_if_stored=lambda _, version: states[version]
    )
    table: Any = None
    return RunFacts(table=table, snapshots=snapshots, versions=versions)


def test_schema_changes_are_known_for_versions_with_a_known_predecessor() -> None:
    facts = facts_of({3: state(), 4: state(), 5: wider(), 6: state(metadata=None)}, 3, 4, 5, 6)
    assert facts.schema_changes == {4: (), 5: ("column new added (string)",)}


def test_schema_is_compared_with_the_stored_version_before_though_versions_between_are_not_stored() -> None:
    facts = facts_of({3: state(), 7: wider()}, 7)
    (verdict,) = SCHEMA_UNCHANGED.judge(facts, CheckSettings()).values()
    expected = "A version after 3, up to 7, changed the schema: column new added (string)."
    assert (verdict.passed, verdict.description) == (False, expected)


def test_usual_interval_is_that_of_the_last_commits() -> None:
    history = DeltaHistoryManager(MemoryLogStore(commits(0, 4)), LOG_PATH, configuration=dict)
    found = {most: recent_commit_times(history, most) for most in (1, 4, 5, 6)}
    assert found == {most: [mtime_of(version) for version in range(max(5 - most, 0), 5)] for most in found}


def test_earlier_versions_whose_state_is_unknown_are_left_out() -> None:
    stored = [*range(1, HISTORY + 4)]
    unknown = HISTORY + 1
    facts = facts_of({version: None if version == unknown else state() for version in stored}, HISTORY + 2)
    assert [*facts.states] == [version for version in range(2, HISTORY + 3) if version != unknown]
    assert facts.schema_changes == {HISTORY + 2: ()}


@pytest.mark.parametrize(("has_commit", "expected"), [(True, ("in_commit_timestamp",)), (False, ())])
def test_time_in_a_checksum_is_compared_if_the_log_has_the_commit(
    has_commit: bool, expected: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    created = [timed_protocol(), metadata(configuration={"delta.enableInCommitTimestamps": "true"}), add("a")]
    log = write_log(tmp_path / "t", {v: [commit_info(inCommitTimestamp=v), *created[: 3 - 3 * v]] for v in range(2)})
    write_checkpoint(log, 0, "classic", created)
    counts = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / checksum_file(0)).write_text(json.dumps({**counts, "inCommitTimestampOpt": 7}))
    if not has_commit:
        (log / commit_file(0)).unlink()
    table = TableSettings(name="t", path=str(tmp_path / "t"))
    SnapshotStore.open(None, tmp_path / "store").write_range("t", DeltaLog.for_table(None, table.path), 0, 1)
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    facts = RunFacts(table=table, snapshots=RunSnapshots(settings, RunSession({})), versions=(0,))
    assert tuple(found.field for found in facts.checksum_differences[0]) == expected


def test_checksum_written_after_its_version_was_stored_is_read_with_the_next_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    log = write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    table = TableSettings(name="t", path=str(tmp_path / "t"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    SnapshotStore.open(None, tmp_path / "store").write_range("t", DeltaLog.for_table(None, table.path), 0, 2)
    (log / checksum_file(1)).write_text("{}")

    def late(*versions: int) -> int | None:
        snapshots = RunSnapshots(settings, RunSession({}))
        return RunFacts(table=table, snapshots=snapshots, versions=versions).late_checksum

    assert [late(2), late(1, 2), late(1), late(0)] == [1, 1, None, None]


def test_state_of_the_latest_version_is_known_once_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")]})
    table = TableSettings(name="t", path=str(tmp_path / "t"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    files = []
    for version in range(2):
        log = DeltaLog.for_table(None, table.path)
        SnapshotStore.open(None, tmp_path / "store").write_range("t", log, version, version)
        snapshots = RunSnapshots(settings, RunSession({}))
        state = RunFacts(table=table, snapshots=snapshots, versions=(version,)).loadable_state
        files.append(None if state is None else state.num_of_files)
    assert files == [None, 1]


PASSED = {version: Verdict(passed=True, description=f"passed at {version}") for version in (3, 1, 2)}


def test_verdict_of_passed_versions_is_that_of_the_newest() -> None:
    assert verdict_of_run(PASSED) == PASSED[3]


def test_verdict_of_failed_versions_names_all_of_them() -> None:
    failed = {
        version: Verdict(passed=False, description=f"failed at {version}.", advice=str(version)) for version in (2, 1)
    }
    assert verdict_of_run(PASSED | failed) == Verdict(passed=False, description="failed at 1. failed at 2.", advice="2")


def test_run_without_comparable_versions_is_not_evaluated() -> None:
    assert not verdict_of_run({}).is_evaluated
