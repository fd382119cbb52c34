"""A refresh from reading the log to the last event: its storage requests, and its behavior after a restore."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from deltasnap_assets.runs import refresh_job
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError
from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.planning.names import RANGE_START_TAG
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import Since, TableSettings
from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.errors import StorageError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.support import LastPoll
from tests.assets.followed_table import EVENTS, FollowedTable, materialize
from tests.assets.runs.refresh_builders import STATS, Refreshed
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import use_driver_bases


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)


@pytest.mark.slow
def test_refresh_lists_the_log_twice_and_reads_commits_once(tmp_path: Path, requested: dict[str, list[str]]) -> None:
    table, count = Refreshed(tmp_path), 4
    table.write(0, 0)
    assert table.refresh() == (0,)
    assert table.refresh() == ()  # reads the whole log for faults, as once a day
    table.write(1, count)
    for paths in requested.values():
        paths.clear()
    assert table.refresh() == tuple(range(1, count + 1))
    assert Counter(path.rpartition("/")[2] for path in requested["listed"]) == {"_delta_log": 2, "manifests": 4}
    commits = Counter(path for path in requested["read"] if "/_delta_log/0" in path)
    # The previous commit shows that the log is still the stored one.
    assert commits == dict.fromkeys(commits, 1)
    assert len(commits) == count + 1


@pytest.mark.slow
def test_restored_table_with_new_commits_is_stored_again_after_the_last_common_version(tmp_path: Path) -> None:
    table = Refreshed(tmp_path, max_versions_per_run=3)
    table.write(0, 2)
    assert table.refresh() == (0, 1, 2)
    table.roll_back_to(1)
    table.write(2, 5, mark="b")
    assert table.refresh() == (2, 3, 4, 5)
    assert [table.stored_files(version) for version in (1, 2, 5)] == [
        {"2", "a1.parquet"},
        {"3", "b2.parquet"},
        {"6", "b5.parquet"},
    ]
    assert table.partitions == [str(version) for version in range(6)]
    assert known_of(table.instance, EVENTS).done == frozenset(range(6))
    assert table.refresh() == ()


@pytest.mark.slow
def test_fork_that_another_instance_stored_is_materialized_after_the_last_common_version(tmp_path: Path) -> None:
    table = Refreshed(tmp_path)
    table.write(0, 2)
    assert table.refresh() == (0, 1, 2)
    table.roll_back_to(1)
    table.write(2, 2, mark="b")
    table.store.write_range("events", DeltaLog.for_table(None, str(table.path)), 2, 2)
    assert table.refresh() == (2,)
    assert table.refresh() == ()


@pytest.mark.slow
def test_refresh_ends_when_a_user_stops_its_run(tmp_path: Path) -> None:
    table = Refreshed(tmp_path)
    table.write(0, 3)

    def stop(_: range, message: str) -> None:
        if message.startswith("Started execution of step"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        refresh_table(table.defs, table.settings, table.table, table.instance, on_event=stop, log_level="CRITICAL")
    (run,) = table.instance.get_runs()
    assert run.status in {dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
    assert table.refresh() == (0, 1, 2, 3)


@pytest.mark.slow
def test_rolled_back_table_loses_the_removed_versions_and_is_reported_until_the_next_commit(tmp_path: Path) -> None:
    table = Refreshed(tmp_path)
    table.write(0, 3)
    table.refresh()
    table.roll_back_to(1)
    store = SnapshotStore.open(None, table.settings.storage)
    for evaluated_again in ((1,), ()):
        assert table.refresh() == evaluated_again
        assert table.partitions == ["0", "1"]
        assert store.versions("events") == [0, 1]
        (page,) = table.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=1).records
        assert page.asset_observation is not None
        assert "Versions 2 to 3 are gone from the log" in str(page.asset_observation.metadata["health"].value)
        assert table.verdict("contiguous_log") == (False, "WARN")
        (row,) = store.fleet(["events"]).to_pylist()
        assert (row["condition"], row["check"].split(", ")[0]) == ("warned", "log")
        assert row["reason"].startswith("Versions 2 to 3 are gone from the log")
    table.write(2, 2, mark="b")
    assert table.refresh() == (2,)
    assert table.stored_files(2) == {"3", "b2.parquet"}
    assert table.verdict("contiguous_log") == (True, "ERROR")
    assert "log" not in str(store.fleet(["events"]).to_pylist()[0]["check"])


@pytest.mark.slow
def test_warning_of_a_check_about_a_version_ends_when_that_version_is_rolled_back(tmp_path: Path) -> None:
    table = Refreshed(tmp_path)
    table.write(0, 1)
    write_log(table.path, {2: [metadata(partitionColumns=["id"])]})
    table.refresh()
    assert "schema_unchanged" in table.row["check"]
    table.roll_back_to(1)
    table.refresh()
    assert "schema_unchanged" not in table.row["check"]
    key = dg.AssetCheckKey(dg.AssetKey(["events", "computed_state"]), "schema_unchanged")
    latest = table.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert latest.status.value == "SUCCEEDED"


@pytest.mark.slow
def test_table_with_no_configured_version_yet_is_warned_of_until_it_has_one(tmp_path: Path) -> None:
    table = Refreshed(tmp_path, versions=Since(since=2))
    store = SnapshotStore.open(None, table.settings.storage)
    table.write(0, 0)
    assert table.refresh() == ()
    (row,) = store.fleet(["events"]).to_pylist()
    expected = "The latest version of events is 0, but `versions` starts at version 2."
    assert (row["condition"], row["check"], row["reason"]) == ("warned", "versions", expected)
    table.write(1, 2)
    assert table.refresh() == (2,)
    assert "versions" not in str(store.fleet(["events"]).to_pylist()[0]["check"])


@pytest.mark.slow
def test_refresh_warns_of_versions_that_only_a_deleted_store_had(tmp_path: Path) -> None:
    table, warnings = Refreshed(tmp_path), list[str]()
    table.write(0, 3)
    assert table.refresh() == (0, 1, 2, 3)
    actions = [protocol(), metadata(), *(add(f"a{v}.parquet", stats=STATS) for v in range(4))]
    write_checkpoint(table.log, 3, "classic", actions)
    for version in range(3):
        table.commit(version).unlink()
    shutil.rmtree(tmp_path / "store")
    done = refresh_table(
        table.defs, table.settings, table.table, table.instance, on_warning=warnings.append, log_level="ERROR"
    )
    assert (done, table.partitions) == ((3,), ["3"])
    (warning,) = warnings
    assert warning.startswith("events: versions are lost: 0 to 2. Neither the store nor")


@pytest.mark.slow
def test_refresh_of_a_table_with_a_damaged_manifest_fails_as_the_fleet_shows_it(tmp_path: Path) -> None:
    made = Refreshed(tmp_path)
    made.write(0, 2)
    made.refresh()
    store = SnapshotStore.open(None, made.settings.storage)
    newest = max(Path(made.settings.storage, "events", "manifests").iterdir())
    newest.write_text("{}", encoding="utf-8")
    (row,) = store.fleet(["events"]).to_pylist()
    with pytest.raises(BrokenTableError) as raised:
        made.refresh()
    (problem,) = raised.value.problems
    assert (row["condition"], row["reason"], row["advice"]) == ("broken", problem.text, problem.advice)
    newest.unlink()  # as advised
    assert made.refresh() == (2,)


def test_refresh_without_new_versions_sorts_partitions_that_came_late(tmp_path: Path) -> None:
    table, defs = FollowedTable(tmp_path / "t"), SimpleNamespace(resolve_job_def=lambda _: None)
    table.write(0, 1)
    table.store_versions(range(2), computed=True)
    materialize(table.instance, range(2))
    table.instance.add_dynamic_partitions("events_versions", ["1", "0"])
    table.store.polls.write("events", LastPoll(polled_at_ms=1, latest_version=1, checked_version=1))
    assert refresh_table(cast(Any, defs), table.settings, table.table, table.instance) == ()
    assert list(table.instance.get_dynamic_partitions("events_versions")) == ["0", "1"]


def test_versions_that_another_process_adds_during_a_refresh_are_kept(tmp_path: Path) -> None:
    table = FollowedTable(tmp_path / "t", max_versions_per_run=1)
    table.write(0, 1)

    def execute(*, tags: dict[str, str], **_: Any) -> Any:
        version = int(tags[RANGE_START_TAG])
        table.store_versions([version], computed=True)
        materialize(table.instance, [version])
        table.instance.add_dynamic_partitions("events_versions", ["2"] if version == 0 else [])
        return SimpleNamespace(success=True, all_events=[])

    job = SimpleNamespace(execute_in_process=execute)
    defs = SimpleNamespace(resolve_job_def=lambda _: job)
    assert refresh_table(cast(Any, defs), table.settings, table.table, table.instance) == (0, 1)
    assert set(table.instance.get_dynamic_partitions("events_versions")) == {"0", "1", "2"}


@pytest.mark.slow
def test_versions_that_lost_their_files_are_stored_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = Refreshed(tmp_path)
    table.write(0, 2)
    table.refresh()
    delete_bases(table)
    assert table.refresh() == (0, 1, 2)
    assert "Versions of table events count as not stored: " in caplog.text
    table.store.table("events").check_files(table.store.table("events").manifests().values())
    assert table.stored_files(2) == {"3", "a2.parquet"}


@pytest.mark.slow
def test_versions_whose_files_are_gone_from_the_store_and_from_the_log_are_reported(tmp_path: Path) -> None:
    table = Refreshed(tmp_path)
    table.write(0, 3)
    table.refresh()
    deleted = delete_bases(table)
    table.checkpoint(2)
    for version in (0, 1):
        table.commit(version).unlink()
    for _ in range(2):  # the first one stores versions 2 and 3 again
        with pytest.raises(BrokenTableError, match=r"cannot be read, .* has them: 0 to 1\. .*found none"):
            table.refresh()
        assert (table.row["condition"], table.row["check"]) == ("broken", "stored_versions")
        assert table.partitions == ["0", "1", "2", "3"]
    for base, content in deleted.items():
        base.write_bytes(content)
    table.refresh()
    assert "stored_versions" not in str(table.row["check"])


def delete_bases(table: Refreshed) -> dict[Path, bytes]:
    """Delete the bases of the stored versions, and return them."""
    bases = {base: base.read_bytes() for base in table.storage.glob("events/0*/base/*/*.parquet")}
    for base in bases:
        base.unlink()
    return bases


def test_job_refreshes_all_tables_and_then_fails_with_the_error_of_each_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def refresh(defs: Any, _: Settings, table: TableSettings, *__: object, **___: object) -> tuple[int, ...]:
        asked.append((defs, table.name))
        if table.name == "two":
            raise StorageError(path="s3://me:hunter2@lake/two", reason="timeout")
        return (0, 1)

    monkeypatch.setattr(refresh_job, "refresh_table", refresh)
    tables = tuple(TableSettings(name=name, path=str(tmp_path / name)) for name in ("one", "two", "three"))
    settings, defs = Settings(storage=str(tmp_path / "store"), tables=tables), dg.Definitions()
    instance = dg.DagsterInstance.ephemeral()
    job = refresh_job.refresh_job(settings, lambda: defs, GivenSession(None))
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert asked == [(defs, "one"), (defs, "two"), (defs, "three")]
    (failure,) = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert {"one: 2 versions materialized", "three: 2 versions materialized"} <= {*messages}
    (problem,) = [message for message in messages if message.startswith("two: ")]
    assert "timeout" in problem
    assert "1 table failed. two: " in str(failure)
    assert "hunter2" not in f"{failure} {messages}"
    settings = settings.model_copy(update={"tables": (tables[0],)})
    assert (
        refresh_job.refresh_job(settings, lambda: defs, GivenSession(None))
        .execute_in_process(instance=instance)
        .success
    )
