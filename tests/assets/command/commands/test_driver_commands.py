"""Commands that the driver answers without Spark, and which commits `history` shows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import dagster as dg
import pytest
import yaml
from typer.testing import Result

from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.settings.loading import read_settings
from deltasnap_core.support import commit_file
from tests.assets.command.commands.driver_commands_builders import parsed, run, table
from tests.builders import commit_info, metadata, protocol, write_log
from tests.core.scan.catalog_tables import write_catalog_managed


def test_history_has_a_line_for_the_commits_lost_at_the_start(tmp_path: Path) -> None:
    path = table(tmp_path)
    for version in range(2):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    result = run("history", path, "--json")
    assert result.exit_code == 1
    assert [(each["version"], each.get("last_version")) for each in json.loads(result.stdout)["rows"]] == [
        (4, None), (3, None), (2, None), (0, 1),
    ]  # fmt: skip


def test_history_reports_that_the_default_limit_leaves_out_commits(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], **{version: [commit_info()] for version in range(1, 20)}})
    assert (len(parsed("history", tmp_path)["rows"]), run("history", tmp_path).stderr) == (20, "")
    write_log(tmp_path, {20: [commit_info()]})
    notice = "Only 20 commits are shown; there are more. --limit N shows N of them.\n"
    assert (len(parsed("history", tmp_path)["rows"]), run("history", tmp_path).stderr) == (20, notice)
    assert run("history", tmp_path, "--limit", 20).stderr == ""


def test_long_values_are_on_one_line_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = metadata(configuration={"delta.constraints.a": "x" * 1500})
    write_log(tmp_path, {0: [commit_info("o" * 500, userName="u" * 500), protocol(), long]})
    assert "x" * 1500 in run("inspect", tmp_path).stdout
    assert len(run("history", tmp_path).stdout.splitlines()) == 2


@pytest.mark.parametrize("width", [80, 100, 200])
def test_history_truncates_no_metric(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    metrics = {"num_added_rows": 140, "num_added_files": "2", "execution_time_ms": 3, "plan": {"kind": "x"}, "none": 0}
    first = [commit_info("WRITE", operationMetrics=metrics, engineInfo="delta-rs:py-1.6.6"), protocol(), metadata()]
    write_log(tmp_path, {0: first})
    shown = run("history", tmp_path).stdout
    assert "…" not in shown
    assert "WRITE: num_added_files=2, num_added_rows=140" in " ".join(shown.split())
    assert all(len(line) <= width for line in shown.splitlines())
    for name in ("time", "plan", "none"):
        assert name not in shown


def test_duplicate_table_is_discovered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = table(tmp_path / "lake")
    run("init", path, f"{path}/", tmp_path / "lake" / "*")
    assert [each.name for each in read_settings(tmp_path / "deltasnap.yaml").tables] == ["events"]


@pytest.mark.parametrize("command", [("diff", 0, 2), ("inspect", "--version", 2)], ids=str)
def test_version_that_is_only_staged_is_reported_as_staged(command: tuple[object, ...], tmp_path: Path) -> None:
    write_catalog_managed(tmp_path)
    result = run(command[0], tmp_path, *command[1:])
    assert result.exit_code != 0
    assert "The commits of versions 1 to 2 are staged, but not published" in result.stderr


def test_init_writes_a_configuration_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("events", "my clicks"):
        table(tmp_path / "lake", name)
    (tmp_path / "lake" / "no_table").mkdir()
    reported = parsed("init", tmp_path / "lake" / "*")
    assert [each["name"] for each in reported["rows"]] == ["events", "my_clicks"]
    text = (tmp_path / "deltasnap.yaml").read_text()
    assert "# version 4 of 2023-11-14T22:17:20+00:00" in text
    settings = read_settings(tmp_path / "deltasnap.yaml", {})
    assert [each.path for each in settings.tables] == [
        str(tmp_path / "lake" / name) for name in ("events", "my clicks")
    ]


def test_init_in_the_folder_of_a_table_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = table(tmp_path)
    monkeypatch.chdir(folder)
    result = run("init", ".")
    assert (result.exit_code, (Path(folder) / "deltasnap.yaml").exists()) == (1, False)
    assert "is in the folder of the table" in str(result.exception)


def test_init_keeps_an_existing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deltasnap.yaml").write_text("tables: []")
    result = run("init", table(tmp_path))
    assert result.exit_code == 2
    assert (tmp_path / "deltasnap.yaml").read_text() == "tables: []"
    assert run("init", tmp_path / "events", "--force").exit_code == 0


def test_init_keeps_storage_options_out_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("init", table(tmp_path), "-o", "auto_mkdir=hunter2", "-o", "mode=hunter2")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "deltasnap.yaml").read_text()
    assert "hunter2" not in text
    options = {"auto_mkdir": "${DELTASNAP_AUTO_MKDIR}", "mode": "${DELTASNAP_MODE}"}
    assert yaml.safe_load(text)["tables"][0]["storage_options"] == options
    assert "Set these environment variables before use: DELTASNAP_AUTO_MKDIR, DELTASNAP_MODE." in result.stdout


def test_init_reports_paths_that_are_not_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("init", tmp_path / "nothing")
    assert result.exit_code == 1
    assert "No Delta table at" in result.output.replace("\n", " ")
    assert not (tmp_path / "deltasnap.yaml").exists()


def findings(result: Result) -> dict[str, dict[str, str]]:
    return {finding["subject"]: finding for finding in json.loads(result.stdout)["rows"]}


def test_doctor_fails_with_advice_for_each_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELTASNAP_CONFIG", "lake.yaml")
    (tmp_path / "lake.yaml").write_text("tables: [{name: gone, path: gone}]\nspark: {remote: 'sc://127.0.0.1:9'}")
    result = run("doctor", "--json")
    found = findings(result)
    assert result.exit_code == 1
    assert found["table gone"]["mark"] == found["Spark Connect"]["mark"] == "error"
    assert found["table gone"]["advice"]
    (tmp_path / "lake.yaml").write_text("tables: [{nam: gone}]")
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert "nam" in findings(result)["configuration"]["message"]


def test_doctor_in_an_empty_folder_shows_how_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    result = run("doctor", "--json")
    assert result.exit_code == 1
    assert "`deltasnap demo` creates a demo table" in findings(result)["configuration"]["message"]
    assert not any(subject.startswith("table") for subject in findings(result))


@pytest.mark.slow
def test_doctor_names_a_run_that_may_be_dead_and_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("DELTASNAP_CONFIG", "deltasnap.yaml")
    table(tmp_path)
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: events, path: events}]\nstorage: store")

    @dg.job(name="events_snapshots")
    def job() -> None: ...

    with dg.DagsterInstance.from_config(str(home)) as instance:
        run_of_it = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=run_tags("events", 0, 1))
    found = findings(run("doctor", "--json"))["runs of events"]
    assert (found["mark"], found["message"]) == ("ok", f"{run_of_it.run_id} is in progress")
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + 605)
    found = findings(run("doctor", "--json"))["runs of events"]
    assert found["mark"] == "warning"
    assert found["message"] == f"{run_of_it.run_id} has written no event for ten minutes, and may be dead"
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert [each.status for each in instance.get_runs()] == [dg.DagsterRunStatus.STARTED]


@pytest.mark.slow
def test_refresh_prints_the_result_of_each_table_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    (tmp_path / "lake.yaml").write_text("tables: [{name: gone, path: gone}]")
    monkeypatch.setenv("DELTASNAP_CONFIG", "lake.yaml")
    result = run("refresh", "--json")
    monkeypatch.delenv("DAGSTER_HOME")  # the command sets it for its process
    assert result.exit_code == 1
    (reported,) = json.loads(result.stdout)["rows"]
    assert (reported["table"], reported["versions"]) == ("gone", [])
    assert reported["error"].startswith("gone: No Delta table at")


def test_init_reports_a_matching_table_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "lake")
    write_log(tmp_path / "lake" / "broken", {0: [commit_info("CREATE TABLE")]})
    result = run("init", tmp_path / "lake" / "*", "--json")
    broken, events = json.loads(result.stdout)["rows"]
    assert result.exit_code == 1
    assert "has no protocol action" in broken["problem"]
    assert events["problem"] is None


LAST = 99


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table whose versions 0, 10, 20, ... are MERGE, one a minute since 2023-11-14T22:13:20Z."""
    first = {0: [commit_info("MERGE"), protocol(), metadata()]}
    write_log(tmp_path, first | {v: [commit_info("WRITE" if v % 10 else "MERGE")] for v in range(1, LAST + 1)})
    return tmp_path


def shown(path: Path, *arguments: object) -> tuple[list[int], str]:
    """Return the versions that the command shows, and what it prints on stderr."""
    result = run("history", path, "--json", *arguments)
    return [row["version"] for row in json.loads(result.stdout)["rows"]], result.stderr


def test_commits_of_an_operation_are_found_far_back(path: Path) -> None:
    merges = [*range(90, -1, -10)]
    assert shown(path, "--operation", "MERGE") == (merges, "")
    assert shown(path, "--operation", "merge", "--limit", 3) == (merges[:3], "")
    assert shown(path, "--operation", "MERGE", "--operation", "OPTIMIZE", "--limit", len(merges)) == (merges, "")
    assert shown(path, "--operation", "OPTIMIZE") == ([], "")


def test_limit_counts_the_commits_that_are_wanted(path: Path) -> None:
    versions, notice = shown(path, "--operation", "WRITE")
    assert versions == [v for v in range(LAST, -1, -1) if v % 10][:20]
    assert notice == "Only 20 commits are shown; there are more. --limit N shows N of them.\n"


@pytest.mark.parametrize(("time", "first"), [("2023-11-14T23:43:20Z", 90), ("2023-11-14T23:43:21+00:00", 91)])
def test_commits_since_a_time_are_shown(time: str, first: int, path: Path) -> None:
    assert shown(path, "--since", time) == ([*range(LAST, first - 1, -1)], "")


def test_since_and_operation_are_both_conditions(path: Path) -> None:
    assert shown(path, "--since", "2023-11-14T22:54:00Z", "--operation", "MERGE") == ([90, 80, 70, 60, 50], "")
    assert shown(path, "--since", "2030-01-01", "--operation", "MERGE") == ([], "")


def test_lost_commits_stay_because_they_may_be_wanted_ones(path: Path) -> None:
    log = path / "_delta_log"
    (log / commit_file(95)).write_text("{nope", encoding="utf-8")
    (log / commit_file(57)).unlink()
    versions, problems = shown(path, "--operation", "MERGE", "--since", "2023-11-14T22:54:00Z")
    assert versions == [95, 90, 80, 70, 60, 57, 50]
    assert problems.startswith("error: ")
    assert shown(path, "--operation", "MERGE", "--since", "2023-11-14T23:20:00Z")[0] == [95, 90, 80, 70]


def test_time_that_cannot_be_read_is_wrong_usage(path: Path) -> None:
    result = run("history", path, "--since", "yesterday")
    assert result.exit_code == 2
    assert "--since" in result.output
