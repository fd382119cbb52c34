"""`deltasnap doctor`: the store, the runs, and the patterns."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from deltasnap_assets.command import doctor
from deltasnap_assets.command.cli import app
from deltasnap_assets.command.local.local_instance import use_local_instance
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.table_runs import TableRuns
from deltasnap_assets.settings.loading import CONFIG_VARIABLE
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.java import JavaError
from deltasnap_core import DeltaSnapError, Problem, SnapshotStore, TableLog
from deltasnap_core.storage.urls import local_path
from deltasnap_core.store.format.manifest import DataSet, StoreFile
from deltasnap_core.support import LastPoll
from tests.assets.command.cli_builders import java_of
from tests.assets.jobs import idle_job
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.core.store.manifests import GENERATION, store_versions, stored_table


@pytest.fixture(autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that prints its version without starting a JVM."""
    monkeypatch.setenv("JAVA_HOME", java_of(tmp_path_factory.mktemp("java"), "17.0.9"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one table, `events`."""
    write_log(tmp_path / "lake" / "events", {0: [commit_info("CREATE TABLE"), protocol(), metadata()]})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_VARIABLE, "deltasnap.yaml")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path


def findings(folder: Path, text: str) -> dict[str, dict[str, str]]:
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["doctor", "--json"], catch_exceptions=False)
    return {finding["subject"]: finding for finding in json.loads(result.stdout)["rows"]}


def store(folder: Path, storage: str) -> dict[str, str]:
    return findings(folder, f"storage: {storage}\ntables: [{{name: events, path: lake/events}}]")["store"]


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize(
    ("storage", "reason"),
    [
        ("/proc/nostore", "nothing can be written there"),
        ("/etc/passwd", "/etc/passwd is not a folder"),
        ("/etc/passwd/store", "/etc/passwd is not a folder"),
    ],
)
def test_unwritable_store_is_an_error(storage: str, reason: str, folder: Path) -> None:
    found = store(folder, storage)
    assert found["mark"] == "error"
    assert storage in found["message"]
    assert reason in found["message"]


@pytest.mark.parametrize("storage", ["deep/store", "existing"])
def test_writable_store_is_unchanged(storage: str, folder: Path) -> None:
    (folder / "existing").mkdir()
    (folder / "deltasnap.yaml").touch()
    before = files(folder)
    found = store(folder, storage)
    assert (found["mark"], files(folder)) == ("ok", before)
    assert found["message"].endswith(": no version is stored yet")


def test_store_on_a_url_is_probed_and_left_unchanged(folder: Path) -> None:
    assert store(folder, "memory://doctor/store")["mark"] == "ok"
    assert fsspec.filesystem("memory").find("/doctor") == []


@pytest.mark.parametrize(
    ("content", "problem", "advice"),
    [
        (b"{", "Corrupt snapshot store file", "Move the file away and refresh the table"),
        (b'{"format":4}', "format 4", ""),
    ],
)
def test_recent_unreadable_manifest_is_an_error(content: bytes, problem: str, advice: str, folder: Path) -> None:
    write_log(folder / "lake" / "events", {version: [add(f"{version}.parquet")] for version in range(1, 8)})
    store_versions(stored_table(folder / "store"), TableLog.for_path(folder / "lake" / "events"), range(4, 8))
    assert store(folder, "store")["mark"] == "ok"
    (manifest,) = (folder / "store" / "events" / "manifests").glob("*6.json")
    manifest.write_bytes(content)
    found = store(folder, "store")
    assert found["mark"] == "error"
    assert problem in found["message"]
    assert manifest.name in found["message"]
    assert found["advice"].partition(":")[0] == advice


def test_recent_version_whose_data_is_lost_is_an_error(folder: Path) -> None:
    base = DataSet(first=0, last=0, files=(StoreFile(path="base/part-0.parquet", size=3, rows=1),))
    stored = stored_table(folder / "store")
    store_versions(stored, TableLog.for_path(folder / "lake" / "events"), [0], base=base)
    file = Path(local_path(stored.generation_folder(GENERATION))) / "base" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"123")
    assert store(folder, "store")["mark"] == "ok"
    file.unlink()
    found = store(folder, "store")
    assert found["mark"] == "error"
    assert found["message"].endswith("base/part-0.parquet: expected a file, found none.")
    assert "materialize the versions that use it again" in found["advice"]


def test_failed_write_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "existing").mkdir()
    (folder / "deltasnap.yaml").touch()
    before = files(folder)
    # A store writes under a temporary name first.
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(28, "No space left on device")))
    found = store(folder, "existing")
    assert (found["mark"], files(folder)) == ("error", before)
    assert "No space left on device" in found["message"]


def test_check_of_a_remote_store_leaves_no_folder(folder: Path) -> None:
    class Disk(LocalFileSystem):  # type: ignore[misc]
        protocol = "disk"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return str(super()._strip_protocol(path.removeprefix("disk://")))

    fsspec.register_implementation("disk", Disk, clobber=True)
    assert store(folder, f"disk://{folder}/remote")["mark"] == "ok"
    assert list((folder / "remote").iterdir()) == []


def test_store_on_a_url_that_rejects_a_write_is_an_error_that_names_the_store(folder: Path) -> None:
    class ReadOnly(MemoryFileSystem):  # type: ignore[misc]
        protocol = "readonly"

        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
            raise PermissionError("Access Denied")

    fsspec.register_implementation("readonly", ReadOnly, clobber=True)
    found = store(folder, "readonly://doctor/store")
    expected = "readonly://doctor/store cannot be written: Access Denied"
    assert (found["mark"], found["message"]) == ("error", expected)


@pytest.mark.parametrize(
    "text", ["storage: [", "no_such_key: 1", "event_log_storage: {module: nowhere, class: Nothing}"]
)
def test_broken_instance_does_not_hide_other_results(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    found = findings(folder, "storage: store\ntables: [{name: events, path: lake/events}]")
    assert found["runs"]["mark"] == "error"
    assert found["runs"]["advice"] == f"Correct {home}/dagster.yaml."
    assert found["runs"]["message"]
    assert found["table events"]["mark"] == found["store"]["mark"] == "ok"


@pytest.mark.parametrize("is_enabled", [False, True])
def test_instance_without_retries_is_a_warning(is_enabled: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("run_retries: {enabled: true}" if is_enabled else "", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    found = findings(folder, "storage: store\ntables: [{name: events, path: lake/events}]")
    assert found["runs of events"]["mark"] == "ok"
    if is_enabled:
        assert "run retries" not in found
    else:
        assert found["run retries"]["mark"] == "warning"
        assert str(home / "dagster.yaml") in found["run retries"]["advice"]


def test_damaged_database_of_the_instance_has_its_own_advice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "home"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    use_local_instance()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.get_runs_count()
    with closing(sqlite3.connect(home / "history" / "runs.db")) as database:
        database.execute("INSERT INTO alembic_version VALUES ('16e3655b4d9b')")
        database.commit()
    found = findings(folder, "storage: store\ntables: [{name: events, path: lake/events}]")
    assert found["runs"]["mark"] == "error"
    assert found["runs"]["advice"].startswith(f"If it fails again, stop deltasnap and Dagster, and move {home} away.")


def test_each_problem_of_the_configuration_is_a_finding(folder: Path) -> None:
    (folder / "deltasnap.yaml").write_text("tables: [{name: a b, path: x}, {name: b}]", encoding="utf-8")
    result = CliRunner().invoke(app, ["doctor", "--json"], catch_exceptions=False)
    found = [each["message"] for each in json.loads(result.stdout)["rows"] if each["subject"] == "configuration"]
    assert len(found) == 2
    assert "tables[0].name" in found[0]
    assert "tables[1].path: missing" in found[1]


@pytest.mark.parametrize(
    ("url", "mark", "message"),
    [
        ("json://chat.example/hunter2", "ok", "1 service"),
        ("nonsense://hunter2", "error", "`alerts.urls[0]` is of no kind that Apprise knows"),
    ],
)
def test_services_of_alerts_are_checked_without_their_urls(url: str, mark: str, message: str, folder: Path) -> None:
    config = f"storage: store\ntables: [{{name: events, path: lake/events}}]\nalerts: {{urls: ['{url}']}}"
    found = findings(folder, config)["alerts"]
    assert (found["mark"], found["message"]) == (mark, message)


def test_pattern_without_a_table_is_a_warning(folder: Path) -> None:
    (folder / "empty").mkdir()
    found = findings(folder, "storage: store\ndiscover: [{path: empty/*}]")
    assert found["discover"]["mark"] == "warning"
    assert f"{folder}/empty/*" in found["discover"]["message"]
    assert found["configuration"]["message"].endswith(": no table")
    assert found["store"]["mark"] == "ok"


def follow(folder: Path) -> None:
    """Record a poll of the table, as a sensor does."""
    poll = LastPoll(polled_at_ms=1, path=str(folder / "lake" / "events"))
    SnapshotStore.open(None, str(folder / "store")).polls.write("events", poll)


def test_name_that_has_another_table_in_the_store_is_a_warning(folder: Path) -> None:
    config = "storage: store\ntables: [{name: events, path: lake/events}]"
    follow(folder)
    assert "name events" not in findings(folder, config)
    found = findings(folder, config.replace("lake/events", "lake/others"))["name events"]
    expected = f"The store has another table of this name, at {folder}/lake/events."
    assert (found["mark"], found["message"]) == ("warning", expected)


def test_table_with_no_configured_version_yet_is_a_warning(folder: Path) -> None:
    found = findings(folder, "storage: store\ntables: [{name: events, path: lake/events, versions: {since: 7}}]")
    expected = "The latest version of events is 0, but `versions` starts at version 7."
    assert (found["table events"]["mark"], found["table events"]["message"]) == ("warning", expected)


def test_discovered_table_that_lost_its_log_is_a_warning(folder: Path) -> None:
    write_log(folder / "lake" / "users", {0: [protocol(), metadata()]})
    follow(folder)
    config = "storage: store\ndiscover: [{path: lake/*}]"
    assert "discover" not in findings(folder, config)
    (folder / "lake" / "events" / "_delta_log").rename(folder / "moved")
    found = findings(folder, config)["discover"]
    assert found["mark"] == "warning"
    assert found["message"] == (
        f"events: This table is in the store, but {folder}/lake/events is no longer a Delta table and is not followed."
    )


@pytest.mark.parametrize(
    "config",
    [
        "discover: [{path: lake/*, exclude: [ev*]}]",
        "discover: [{path: lake/*/x}]",
        "discover: [{path: lake/u*}]",
        "discover: [{path: lake/*, name: 'raw_{name}'}]",
        "tables: [{name: users, path: lake/users}]",
    ],
    ids=["excluded", "deeper", "another pattern", "renamed", "no pattern"],
)
def test_stored_table_that_no_pattern_should_find_is_not_lost(folder: Path, config: str) -> None:
    write_log(folder / "lake" / "users", {0: [protocol(), metadata()]})
    write_log(folder / "lake" / "users" / "x", {0: [protocol(), metadata()]})
    follow(folder)
    if "raw" not in config:
        (folder / "lake" / "events" / "_delta_log").rename(folder / "moved")
    assert "discover" not in findings(folder, f"storage: store\n{config}")


def test_pattern_in_a_folder_that_does_not_exist_is_an_error(folder: Path) -> None:
    found = findings(folder, "storage: store\ndiscover: [{path: nowhere/*}]")
    assert found["configuration"]["mark"] == "error"
    assert f"{folder}/nowhere does not exist" in found["configuration"]["message"]


def test_each_result_is_a_line_and_each_problem_has_an_advice(folder: Path) -> None:
    text = "storage: /proc/nostore\ntables: [{name: events, path: lake/events}]"
    found = findings(folder, text)
    result = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    lines = iter(result.stdout.splitlines())
    for subject, finding in found.items():
        start = next(line for line in lines if f" {subject}: " in line)
        assert start.startswith(finding["mark"])
        assert finding["mark"] != "ok" or not finding["advice"]
        if finding["advice"]:
            assert next(lines) == f"        {finding['advice']}"
    assert (found["store"]["mark"], result.exit_code) == ("error", 1)


def test_tables_with_one_path_are_a_warning_however_it_is_spelled(folder: Path) -> None:
    paths = {"events": "lake/events", "again": "lake/events/", "url": f"file://{folder}/lake/../lake/events"}
    tables = ", ".join(f"{{name: {name}, path: '{path}'}}" for name, path in paths.items())
    found = findings(folder, f"storage: store\ntables: [{tables}]")["paths"]
    assert found["mark"] == "warning"
    assert found["message"] == "events, again, url have the same path: it is read and stored 3 times."


def test_tables_with_one_path_on_two_storages_are_no_warning(folder: Path) -> None:
    text = "storage: store\ntables:\n- {name: events, path: lake/events}\n"
    other = "- {name: other, path: lake/events, storage_options: {auto_mkdir: true}}\n"
    assert "paths" not in findings(folder, text + other)


TABLES = "storage: store\ntables: [{name: events, path: lake/events}]"


def test_session_on_a_server_needs_no_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(remote: str) -> None:
        raise DeltaSnapError(f"{remote} cannot be reached.")

    monkeypatch.setattr(doctor, "check_java", Mock(side_effect=JavaError("No Java found.")))
    monkeypatch.setattr(doctor, "check_remote", lambda _: None)
    remote = f"{TABLES}\nspark: {{remote: 'sc://host:1'}}"
    found = findings(folder, remote)
    assert (found["Java"]["mark"], found["Java"]["message"]) == ("warning", "No Java found.")
    assert (found["Spark Connect"]["mark"], found["Spark Connect"]["message"]) == ("ok", "responds")
    assert findings(folder, TABLES)["Java"]["mark"] == "error"
    monkeypatch.setattr(doctor, "check_remote", unreachable)
    lost = findings(folder, remote)["Spark Connect"]
    assert (lost["mark"], lost["message"]) == ("error", "sc://host:1 cannot be reached.")


@pytest.mark.parametrize(("severity", "is_well"), [("unknown", True), ("warning", True), ("error", False)])
def test_only_an_error_is_a_failure(severity: Any, is_well: bool) -> None:
    problem = Problem.of_check(check="a", severity=severity, text="")
    assert doctor.is_well([doctor.Finding(subject="a", message=""), doctor.Finding.of("a", problem)]) is is_well


RETRY = "Run `deltasnap refresh events` to retry."
TERMINATE = "If its process is gone, terminate it in the UI. Its versions are requested again without that."


@pytest.mark.parametrize(
    ("in_progress", "silent", "is_failed", "expected"),
    [
        (None, None, False, ("ok", "none in progress", "")),
        ("r1", None, True, ("ok", "r1 is in progress", "")),
        (None, None, True, ("warning", "the last run failed, r0: No space.", RETRY)),
        (None, "r2", True, ("warning", "r2 has written no event for ten minutes, and may be dead", TERMINATE)),
        ("r1", "r2", False, ("warning", "r2 has written no event for ten minutes, and may be dead", TERMINATE)),
    ],
)
def test_runs_of_a_table_are_reported(
    in_progress: str | None,
    silent: str | None,
    is_failed: bool,
    expected: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance: Any = SimpleNamespace()
    failed = failed_run_problem("r0", "No space.") if is_failed else None
    record: Any = SimpleNamespace(dagster_run=SimpleNamespace(run_id=silent))
    found_runs = {"events": TableRuns(active=in_progress, silent=[record] if silent else [])}
    table = TableSettings(name="events", path="lake/events")
    of = SimpleNamespace(of=lambda *of: found_runs if of == (instance, [table]) else "another")
    monkeypatch.setattr(doctor, "TableRuns", of)
    monkeypatch.setattr(doctor, "failed_run", lambda *of: failed if of == (instance, table) else "another")
    found = doctor._runs_of(instance, table)
    assert (found.subject, found.mark, found.message, found.advice) == ("runs of events", *expected)


@pytest.mark.slow
def test_failed_last_run_is_a_warning_with_its_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(folder / "home"))
    assert "there is no Dagster instance" in findings(folder, TABLES)["runs"]["message"]
    use_local_instance()
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        assert findings(folder, TABLES)["runs of events"]["message"] == "none in progress"
        run = instance.create_run_for_job(idle_job, tags=run_tags("events", 0, 0))
        instance.report_run_failed(run, "The disk is full.")
        found = findings(folder, TABLES)["runs of events"]
        assert (found["mark"], found["advice"]) == ("warning", "Run `deltasnap refresh events` to retry.")
        assert found["message"].startswith(f"the last run failed, {run.run_id}: ")


def test_instance_without_permission_has_its_own_advice() -> None:
    error = RuntimeError("no instance")
    error.__cause__ = PermissionError("denied")
    assert doctor._advice_for(error, Path("/home/x")) == "Correct the permissions of /home/x."
