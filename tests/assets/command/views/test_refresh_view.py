from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from rich.console import Console
from typer.testing import CliRunner

from deltasnap_assets.command.cli import app
from deltasnap_assets.command.views import refresh_view
from deltasnap_assets.command.views.refresh_view import Refreshed, RunProgress, refresh_tables, versions_text
from deltasnap_assets.quantities import DAY_MS
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import demo_settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, Since, TableSettings
from deltasnap_assets.spark.java import JavaError
from deltasnap_core import DeltaTableNotFoundError, Problem, ProblemKind
from deltasnap_core.support import LastPoll, problem_json, system_clock
from tests.assets.checks.known import condition, fault, versions
from tests.builders import commit_info, metadata, protocol, write_log
from tests.driver_bases import use_driver_bases


def test_failing_table_does_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    outcomes: dict[str, Any] = {
        "absent": DeltaTableNotFoundError(path="s3://me:hunter2@lake/t"),
        "odd": RecursionError("[deep] \x1b[2J"),
        "good": None,
    }

    def refresh_table(
        defs: object, settings: object, table: TableSettings, *_: object, on_stored: Any, **__: object
    ) -> None:
        outcome = outcomes[table.name]
        on_stored(range(3))
        if isinstance(outcome, Exception):
            raise outcome

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(refresh_view, "refresh_table", refresh_table)
    tables = tuple(demo_settings(tmp_path).tables[0].model_copy(update={"name": name}) for name in outcomes)
    done = refresh_tables(Settings(storage=str(tmp_path / "store"), tables=tables), list(outcomes))
    assert done["good"] == Refreshed(versions=(0, 1, 2))
    assert "No Delta table found" in (done["absent"].error or "")
    assert done["absent"].versions == (0, 1, 2)  # those before the fault
    assert "RecursionError" in (done["odd"].error or "")
    reported, problems = capfd.readouterr()
    assert "error: absent: No Delta table found at s3://" in problems
    assert r"error: odd: RecursionError: [deep] \x1b[2J" in problems
    assert [line for line in reported.splitlines() if "good" in line] == ["good: versions 0 to 2 materialized"]
    assert "hunter2" not in reported + problems


def test_result_has_the_current_problems_even_after_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = demo_settings(tmp_path)
    (table,) = settings.tables
    problem = Problem.of_check(
        check="readable_checkpoint", severity="warning", text="It lacks a file.", advice="Write one."
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(refresh_view, "refresh_table", lambda *_, **__: ())
    assert refresh_tables(settings, [table.name], is_silent=True)[table.name].problems == ()
    store_of(settings).polls.write(table.name, LastPoll(polled_at_ms=1, problems=(problem,)))
    assert refresh_tables(settings, [table.name], is_silent=True)[table.name].problems == (problem_json(problem),)


def test_result_of_a_stale_table_has_the_problem_of_the_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = demo_settings(tmp_path)
    (table,) = settings.tables
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(refresh_view, "refresh_table", lambda *_, **__: ())
    now = system_clock()
    poll = LastPoll(polled_at_ms=now, checked_version=0, last_commit_ms=now - 8 * DAY_MS, stale_after_ms=DAY_MS)
    store_of(settings).polls.write(table.name, poll)
    (problem,) = refresh_tables(settings, [table.name], is_silent=True)[table.name].problems
    (row,) = fleet_of(settings)
    assert row["condition"] == "stale"
    assert (row["check"], row["reason"], row["advice"]) == (problem["check"], problem["text"], problem["advice"])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DeltaTableNotFoundError(path="/t"), "No Delta table found at /t"),
        (RecursionError("deep"), "RecursionError: deep"),
    ],
    ids=["of the table", "any"],
)
def test_failure_of_a_table_is_shown_with_the_log_of_its_output(error: Exception, text: str) -> None:
    err = Console(file=io.StringIO(), width=20)
    failed = refresh_view._failed(err, "events", error, [3, 4], Path("refresh.log"))
    assert isinstance(err.file, io.StringIO)
    problem, log = err.file.getvalue().splitlines()
    assert (problem.startswith(f"error: events: {text}"), log) == (True, "Output of Spark and Dagster: refresh.log")
    assert failed == Refreshed(versions=(3, 4), error=problem.removeprefix("error: "))


def test_broken_table_is_shown_with_each_problem_instead_of_its_error() -> None:
    problem = Problem.of_check(check="log", severity="error", text="It is lost.", advice="Restore it.")
    known = condition(fault(ProblemKind.MISSING_COMMIT, versions=versions(3, 5)), loadable=versions(0, 2))
    error = BrokenTableError(table="events", condition=known, problems=[problem])
    err = Console(file=io.StringIO(), width=20)
    failed = refresh_view._failed(err, "events", error, [], Path("refresh.log"))
    assert isinstance(err.file, io.StringIO)
    assert err.file.getvalue().splitlines() == [
        "error: events: log: It is lost. Restore it.",
        "error: events: Problem missing_commit. Repair missing_commit. Loadable: versions 0 to 2.",
    ]
    assert failed.condition == known.to_json()


class Command:
    """`deltasnap refresh` for the tables a, b and c. b needs Spark, and c fails if it is refreshed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, java: str | None, remote: str | None) -> None:
        self.refreshed: list[Any] = []
        tables = ", ".join(f"{{name: {name}, path: {name}}}" for name in "abc")
        spark = "\nspark: " + ("{master: local}" if remote is None else f"{{remote: '{remote}'}}")
        (folder / "deltasnap.yaml").write_text(f"tables: [{tables}]{spark}", encoding="utf-8")
        monkeypatch.chdir(folder)
        monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)

        def check_java() -> None:
            if java is not None:
                raise JavaError(java)

        def refresh_tables(_: object, names: Sequence[str], *, is_silent: bool = False) -> dict[str, Refreshed]:
            self.refreshed.append((list(names), is_silent))
            return {name: Refreshed(versions=(1,), error="c: lost" if name == "c" else None) for name in names}

        def reasons(_: object, tables: Iterable[TableSettings]) -> dict[str, str]:
            return {table.name: "large" for table in tables if table.name == "b"}

        monkeypatch.setattr("deltasnap_assets.spark.java.check_java", check_java)
        monkeypatch.setattr("deltasnap_assets.spark.session.needed.reasons_for_spark", reasons)
        monkeypatch.setattr(refresh_view, "refresh_tables", refresh_tables)
        monkeypatch.setattr(refresh_view, "report_unfollowed_tables", lambda _: self.refreshed.append("lost tables"))

    def run(self, *arguments: str) -> tuple[int, Any, str]:
        result = CliRunner().invoke(app, ["refresh", *arguments])
        return result.exit_code, json.loads(result.stdout) if result.stdout else None, result.stderr


PLAIN: dict[str, Any] = {"versions": [], "health": None, "error": None, "condition": None, "problems": []}


@pytest.mark.parametrize("remote", [None, "sc://host:1"])
def test_command_refreshes_tables_that_need_no_spark_if_there_is_no_java(
    remote: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(tmp_path, monkeypatch, "No Java found.", remote)
    code, found, problems = command.run("b", "a", "b", "--json")
    a = {"table": "a", **PLAIN, "versions": [1]}
    b = {"table": "b", **PLAIN, **({"versions": [1]} if remote else {"error": "No Java found."})}
    assert (code, found, problems) == (0 if remote else 1, {"schema_version": 1, "rows": [b, a]}, "")
    assert command.refreshed == [(["b", "a"] if remote else ["a"], True)]
    assert command.run("b") == (0 if remote else 1, None, "" if remote else "error: b: No Java found.\n")
    assert command.refreshed[1:] == ([(["b"], False)] if remote else [])


def test_command_without_names_refreshes_all_and_reports_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Command(tmp_path, monkeypatch, None, None)
    assert command.run() == (1, None, "")  # the table c fails
    assert command.refreshed == ["lost tables", (["a", "b", "c"], False)]
    assert command.run("a", "b") == (0, None, "")
    assert command.refreshed[2:] == [(["a", "b"], False)]


TEXTS = {
    "none": ((), "up to date"),
    "one": ((7,), "version 7 materialized"),
    "a range": ((7, 8, 9), "versions 7 to 9 materialized"),
    "with gaps": ((1, 3, 9), "3 versions between 1 and 9 materialized"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_versions_are_shown_as_text(case: str) -> None:
    versions, expected = TEXTS[case]
    assert versions_text(versions) == expected


def test_table_with_no_configured_version_yet_is_not_shown_as_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    write_log(tmp_path / "t", {0: [protocol(), metadata()]})
    table = TableSettings(name="late", path=str(tmp_path / "t"), versions=Since(since=7))
    refresh_tables(Settings(storage=str(tmp_path / "store"), tables=(table,)), ["late"])
    shown, problems = capfd.readouterr()
    assert "up to date" not in shown
    assert "warning: The latest version of late is 0, but `versions` starts at version 7." in problems


def test_bar_of_a_run_is_full_when_all_assets_of_its_versions_are_materialized() -> None:
    progress = RunProgress(Console(file=io.StringIO()), "events")
    for name in ASSET_NAMES:
        for version in (3, 4):
            progress.show(range(3, 5), f"Materialized value events {name} {version}.\nmore")
    progress.show(range(3, 5), "Started step [b].")
    progress.show(range(5, 6), "Started")
    several, one = progress._bars.tasks
    assert (several.description, several.finished, several.fields["message"]) == (
        "events 3 to 4",
        True,
        "Started step [b].",
    )
    assert (one.description, one.completed, one.total) == ("events 5", 0, len(ASSET_NAMES))


def test_refresh_without_a_run_prints_no_empty_line() -> None:
    console = Console(file=io.StringIO())
    with RunProgress(console, "events"):
        pass
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


def test_bar_of_a_finished_run_has_no_message_and_that_of_a_stopped_run_its_last_one() -> None:
    out = io.StringIO()
    with RunProgress(Console(file=out, width=100), "events") as progress:
        for first, count in ((1, len(ASSET_NAMES)), (2, 1)):
            for name in range(count):
                progress.show(range(first, first + 1), f"Materialized value {name}.")
            progress.show(range(first, first + 1), f"Last of {first}" * 9)
    done, stopped = (line.rstrip() for line in out.getvalue().splitlines())
    assert re.sub(r"\d:\d\d:\d\d", "TIME", done) == f"events 1 {'━' * 20} 5/5 TIME"
    assert re.sub(r"\d:\d\d:\d\d", "TIME", stopped) == f"events 2 {'━' * 4}{' ' * 17}1/5 TIME {('Last of 2' * 9)[:57]}…"


def test_dry_run_shows_versions_to_materialize_storing_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    write_log(
        tmp_path / "events", {0: [protocol(), metadata()], **{version: [commit_info()] for version in range(1, 5)}}
    )
    tables = (
        "[{name: events, path: events}, {name: recent, path: events, versions: {since: 3}}, {name: gone, path: gone}]"
    )
    (tmp_path / "deltasnap.yaml").write_text(f"storage: store\ntables: {tables}", encoding="utf-8")
    for _ in range(2):
        result = CliRunner().invoke(app, ["refresh", "--dry-run"])
        assert (result.exit_code, result.stdout) == (1, "events: 0 to 4\nrecent: 3 to 4\n")
        assert result.stderr.startswith("error: gone: No Delta table found at ")
    result = CliRunner().invoke(app, ["refresh", "--dry-run", "recent", "--json"])
    row = {"table": "recent", "versions": "3 to 4", "note": ""}
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"schema_version": 1, "rows": [row]})
    assert not (tmp_path / "store").exists()
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs_count() == 0
        for name in ("events_versions", "recent_versions"):
            assert instance.get_dynamic_partitions(name) == []


@pytest.mark.slow
def test_dry_run_leaves_the_store_and_the_instance_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    write_log(tmp_path / "events", {0: [protocol(), metadata()], 1: [commit_info()]})
    (tmp_path / "deltasnap.yaml").write_text("storage: store\ntables: [{name: events, path: events}]", encoding="utf-8")

    def stored() -> tuple[dict[Path, bytes], object, int]:
        with dg.DagsterInstance.get() as instance:
            partitions, runs = instance.get_dynamic_partitions("events_versions"), instance.get_runs_count()
        files = {file: file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file()}
        return files, partitions, runs

    assert CliRunner().invoke(app, ["refresh"]).exit_code == 0
    before = stored()
    assert before[1:] == (["0", "1"], 1)
    nothing = CliRunner().invoke(app, ["refresh", "--dry-run"]).stdout
    assert nothing == "events: nothing to do (All versions of events are materialized.)\n"
    write_log(tmp_path / "events", {2: [commit_info()], 3: [commit_info()]})
    assert CliRunner().invoke(app, ["refresh", "--dry-run"]).stdout == "events: 2 to 3\n"
    assert stored() == before
