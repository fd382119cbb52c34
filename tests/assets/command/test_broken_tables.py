"""The output of commands for broken tables, written by deltalake and broken as in operation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_assets.command.views.refresh_view import refresh_tables
from deltasnap_assets.settings.loading import load_settings
from deltasnap_core import SnapshotStore
from deltasnap_core.protocol.log_files.file_names import checkpoint_file
from deltasnap_core.support import commit_file
from tests.assets.command.cli_builders import deltasnap
from tests.builders import add, flip_bytes, metadata, protocol, write_log
from tests.driver_bases import use_driver_bases
from tests.flaky_s3 import FlakyS3
from tests.thorough import one_in

LAST = 7


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / commit_file(version)


def newest_checkpoint(table: Path) -> Path:
    return table / "_delta_log" / checkpoint_file(4)


def pages(table: Path) -> None:
    flip_bytes(newest_checkpoint(table), 40)


def empty(table: Path) -> None:
    newest_checkpoint(table).write_bytes(b"")


def without_checkpoint(table: Path) -> None:
    newest_checkpoint(table).unlink()
    (table / "_delta_log" / "_last_checkpoint").unlink()


def gap(table: Path) -> None:
    without_checkpoint(table)
    commit(table, 6).unlink()


def covered_gap(table: Path) -> None:
    commit(table, 3).unlink()


def garbage(table: Path) -> None:
    without_checkpoint(table)
    commit(table, 6).write_text("garbage {", encoding="utf-8")


def garbage_at_the_end(table: Path) -> None:
    commit(table, LAST).write_text('{"add": {"path": 3}}\n', encoding="utf-8")


def truncated(table: Path) -> None:
    commit(table, LAST).write_text('{"add": {"path": "f', encoding="utf-8")


def feature(table: Path) -> None:
    names = ["fromTheFuture"]
    action = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names}}
    action["protocol"]["writerFeatures"] = names
    with commit(table, LAST).open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(action)}\n")


def dropped(table: Path) -> None:
    shutil.rmtree(table)


def no_log(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")


LOST: dict[Callable[[Path], None], tuple[str, int | None]] = {
    gap: ("The commit of version 6 is missing", 5),
    garbage: ("Version 6 cannot be read: ", 5),
    garbage_at_the_end: ("line 1: add.path: expected a string, found 3", 6),
    dropped: ("there is no such folder", None),
    no_log: ("the folder has no _delta_log", None),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("sound") / "events"
    for version in range(LAST + 1):
        write_deltalake(table, pa.table({"x": [version, version + 1]}), mode="append")
        if version == 4:
            DeltaTable(table).create_checkpoint()
    return table


@pytest.fixture
def table(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "events"))


def run(table: Path, *arguments: str) -> tuple[int, list[str], str]:
    """Return the exit code, the lines on stderr and stdout of a command, on a machine without Java."""
    folder = table.parent
    text = "tables: [{name: events, path: events, versions: all}]\nstorage: store"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    result = deltasnap(*arguments, folder=folder, JAVA_HOME=str(folder / "none"), DAGSTER_HOME="")
    assert "Traceback" not in result.stdout + result.stderr
    return result.returncode, result.stderr.splitlines(), result.stdout


def parsed(table: Path, *arguments: str) -> tuple[int, Any]:
    code, _, out = run(table, *arguments, "--json")
    return code, json.loads(out)


def of_table(findings: dict[str, Any]) -> dict[str, Any]:
    return next(finding for finding in findings["rows"] if finding["subject"] == "table events")


@pytest.mark.slow
@pytest.mark.parametrize("has_null", one_in(2, [True, False]), ids=["null", "absent"])
def test_table_without_a_schema_is_counted_but_not_shown_completely(tmp_path: Path, has_null: bool) -> None:
    action = metadata(schemaString=None)
    if not has_null:
        del action["metaData"]["schemaString"]
    write_log(tmp_path / "t", {0: [protocol(), action, add("a")], 1: [metadata()]})
    for arguments in ((), ("--version", "1")):
        assert deltasnap("inspect", "t", *arguments, folder=tmp_path).returncode == 0
    shown = deltasnap("inspect", "t", "--version", "0", folder=tmp_path)
    assert shown.returncode == 1
    assert "files           1 " in shown.stdout
    (line,) = shown.stderr.strip().splitlines()
    assert line.startswith("error: The schema of ")
    assert f"{0:020}.json, line 2) cannot be read: metaData.schemaString: required, but absent or null" in line


@pytest.mark.parametrize("damage", [pages, empty], ids=lambda damage: damage.__name__)
def test_corrupt_checkpoint_warns_in_inspect_and_fails_doctor(damage: Callable[[Path], None], table: Path) -> None:
    damage(table)
    code, problems, out = run(table, "inspect", "events")
    (warning,) = problems
    assert code == 0
    assert warning.startswith("warning: The checkpoint of version 4 cannot be read: ")
    assert "deltasnap reads the 8 commits from version 0 on instead. Other readers" in warning
    assert "files           8 (" in out
    code, found = parsed(table, "inspect", "events")
    assert (code, found["error"], found["state"]["numOfFiles"]) == (0, None, 8)
    assert [fault["kind"] for fault in found["condition"]["faults"]] == ["corrupt_checkpoint"]
    code, findings = parsed(table, "doctor")
    assert (code, of_table(findings)["mark"]) == (1, "error")
    assert "deltasnap checkpoint" in of_table(findings)["advice"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", one_in(4, LOST), ids=lambda damage: damage.__name__)
def test_unreadable_table_is_one_line_with_its_last_good_version(damage: Callable[[Path], None], table: Path) -> None:
    damage(table)
    expected, newest = LOST[damage]
    code, problems, out = run(table, "inspect", "events")
    (problem,) = problems
    assert code == 1
    assert problem.startswith("error: ")
    assert expected in problem
    if newest is not None:
        assert f"Loadable: versions 0 to {newest}." in problem
        assert f"version         {newest}, committed" in out
        assert "the newest loadable version" in " ".join(out.split())
        assert f"files           {newest + 1} (" in out
    code, found = parsed(table, "inspect", "events")
    assert code == 1
    assert found["error"]
    assert found["condition"]["mark"] == "error"
    code, findings = parsed(table, "doctor")
    finding = of_table(findings)
    assert (code, finding["mark"]) == (1, "error")
    assert expected in finding["message"]
    assert finding["advice"] in problem
    # `inspect` reads only what the version needs.
    assert finding["condition"] == found["condition"] | {"unread_versions": []}


@pytest.fixture
def refreshed(
    table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Any], tuple[bool, list[str], str]]:
    """Return a function that refreshes the wanted versions: whether it succeeds, its lines on stderr, its stdout."""
    monkeypatch.chdir(table.parent)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    use_driver_bases(monkeypatch)

    def refresh(versions: Any) -> tuple[bool, list[str], str]:
        settings = {"tables": [{"name": "events", "path": "events", "versions": versions}], "storage": "store"}
        Path("deltasnap.yaml").write_text(json.dumps(settings), encoding="utf-8")
        done = refresh_tables(load_settings(), ["events"])["events"]
        monkeypatch.delenv("DAGSTER_HOME")  # the command sets it for its process
        out, err = capfd.readouterr()
        return done.error is None, err.splitlines(), out

    return refresh


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "first", "stored"),
    [(covered_gap, 2, [2, 4, 5, 6, 7]), (garbage, 4, [4, 5]), (dropped, 0, [])],
    ids=["before the checkpoint", "newest", "all"],
)
def test_refresh_stores_what_can_be_loaded_prints_the_fault_once_and_fails(
    damage: Callable[[Path], None],
    first: int,
    stored: list[int],
    table: Path,
    refreshed: Callable[[Any], tuple[bool, list[str], str]],
) -> None:
    damage(table)
    succeeds, problems, out = refreshed({"since": first})
    assert (succeeds, len([line for line in problems if line.startswith("error: ")])) == (False, 1)
    assert "error" not in out
    assert SnapshotStore.open(None, table.parent / "store").versions("events") == stored


@pytest.mark.slow
def test_refresh_fails_each_time_while_a_version_that_is_not_wanted_is_lost(
    table: Path, refreshed: Callable[[Any], tuple[bool, list[str], str]]
) -> None:
    covered_gap(table)
    first, second = (refreshed("latest") for _ in range(2))
    for succeeds, problems, _ in (first, second):
        (problem,) = problems
        assert not succeeds
        assert problem.startswith("error: events: The commit of version 3 is missing in the log of ")
        assert "Loadable: versions 0 to 2, 4 to 7." in problem
    assert f"{LAST} materialized" in first[2]


@pytest.mark.slow
def test_unsupported_feature_is_one_line_and_the_facts_are_shown(table: Path) -> None:
    feature(table)
    code, problems, out = run(table, "inspect", "events")
    (problem,) = problems
    assert code == 1
    assert "needs the reader features fromTheFuture, which deltasnap does not support." in problem
    assert f"version          {LAST}, committed" in out
    code, found = parsed(table, "inspect", "events")
    assert (code, found["version"], found["state"]) == (1, LAST, None)
    assert "fromTheFuture" in found["error"]


@pytest.mark.slow
@pytest.mark.parametrize(("damage", "version"), [(covered_gap, 3), (truncated, LAST)])
def test_history_has_a_line_for_lost_commits(damage: Callable[[Path], None], version: int, table: Path) -> None:
    damage(table)
    code, problems, out = run(table, "history", "events")
    (line,) = (line for line in out.splitlines() if line.split()[0] == f"{version}")
    assert code == 1
    assert "missing: version" in line or "cannot be read: line 1" in line
    assert len(problems) == 1
    code, commits = parsed(table, "history", "events")
    assert code == 1
    assert [entry["version"] for entry in commits["rows"]] == list(range(LAST, -1, -1))
    assert [entry["version"] for entry in commits["rows"] if "fault" in entry] == [version]
    code, problems, _ = run(table, "history", "events", "--limit", "1")
    assert (code, len(problems)) == (1, 1)  # the fault is shown though its commit is not


def replaced(table: Path) -> None:
    commit(table, 4).write_text("garbage {", encoding="utf-8")


def replaced_and_invalid(table: Path) -> None:
    commit(table, 4).write_text('{"add": {"path": 3}}\n', encoding="utf-8")


def replaced_and_gone(table: Path) -> None:
    commit(table, 4).unlink()


REPLACED = {"garbage": replaced, "invalid": replaced_and_invalid, "missing": replaced_and_gone}


@pytest.mark.slow
@pytest.mark.parametrize("damage", one_in(3, REPLACED.values()), ids=REPLACED.keys())
def test_commit_that_a_checkpoint_replaces_loses_no_version_but_has_a_line(
    damage: Callable[[Path], None], table: Path, refreshed: Callable[[Any], tuple[bool, list[str], str]]
) -> None:
    damage(table)
    for version in range(LAST + 1):
        assert run(table, "inspect", "events", "--version", f"{version}", "--commits", "1")[0] == 0
    for limit in ((), ("--limit", "4")):
        code, (problem,), out = run(table, "history", "events", *limit)
        assert code == 1
        assert "Loadable" not in problem
        assert problem.startswith("warning: The commit of version 4 ")
        (line,) = (line for line in out.splitlines() if line.split()[0] == "4")
        assert "cannot be read: line 1" in line or "missing" in line
    assert refreshed("all")[0]
    assert SnapshotStore.open(None, table.parent / "store").versions("events") == [*range(LAST + 1)]


def test_history_of_many_damaged_commits_is_one_line_of_advice_and_a_line_for_each(table: Path) -> None:
    without_checkpoint(table)
    for version in range(2, LAST + 1):
        commit(table, version).write_text("garbage {", encoding="utf-8")
    for limit in (3, 20):
        code, (problem,), out = run(table, "history", "events", "--limit", f"{limit}")
        assert code == 1
        assert "5 more commits cannot be read" in problem
        assert "Loadable" not in problem
        shown = [int(line.split()[0]) for line in out.splitlines() if line.split()[0].isdecimal()]
        assert shown == [*range(LAST, -1, -1)][:limit]
        assert out.count("cannot be read: line 1") == min(limit, LAST - 1)


def test_history_warns_of_damaged_pages_of_a_small_checkpoint(table: Path) -> None:
    pages(table)
    code, problems, _ = run(table, "history", "events")
    (problem,) = problems
    assert code == 0
    assert "The checkpoint of version 4 cannot be read" in problem


@pytest.mark.slow
@pytest.mark.parametrize("damage", [gap, garbage])
def test_diff_across_lost_commits_has_advice(damage: Callable[[Path], None], table: Path) -> None:
    damage(table)
    code, problems, _ = run(table, "diff", "events", "2", f"{LAST}")
    (problem,) = problems
    assert code == 1
    assert "Restore" in problem
    assert run(table, "diff", "events", "2", "5")[0] == 0


@pytest.mark.spark  # a server
def test_denied_access_is_reported_in_one_line(tmp_path: Path, flaky_s3: tuple[FlakyS3, dict[str, Any]]) -> None:
    flaky, options = flaky_s3
    flaky.denies_access = True
    reported = {"endpoint_url": options["client_kwargs"]["endpoint_url"], "key": "ada", "secret": "hunter2"}
    given = [word for name, value in reported.items() for word in ("-o", f"{name}={value}")]
    result = deltasnap("inspect", "s3://lake/events", *given, folder=tmp_path)
    problem = result.stderr.strip().splitlines()[-1]
    assert result.returncode == 1
    assert problem.startswith("error: Access to s3://lake/events")
    assert "Grant read access, or correct the credentials in storage_options." in problem
    assert "hunter2" not in result.stderr


@pytest.mark.spark  # a server
def test_doctor_and_refresh_report_denied_access(tmp_path: Path, flaky_s3: tuple[FlakyS3, dict[str, Any]]) -> None:
    flaky, options = flaky_s3
    flaky.denies_access = True
    table = {"name": "events", "path": "s3://lake/events", "storage_options": options}
    (tmp_path / "deltasnap.yaml").write_text(json.dumps({"tables": [table], "storage": "store"}), encoding="utf-8")
    doctor, refresh = (deltasnap(name, "--json", folder=tmp_path, DAGSTER_HOME="") for name in ("doctor", "refresh"))
    finding, (reported,) = of_table(json.loads(doctor.stdout)), json.loads(refresh.stdout)["rows"]
    assert (doctor.returncode, finding["mark"]) == (1, "error")
    assert finding["message"].startswith("Access to s3://lake/events")
    assert (refresh.returncode, reported["versions"]) == (1, [])
    assert "Access to s3://lake/events" in reported["error"]
