"""The `deltasnap` command end to end: its output, streams and exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_assets.spark.java import JavaError, check_java, java_major
from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.support import LastPoll, how_to_install
from tests.assets.command.cli_builders import (
    COMMAND,
    FORKS,
    assert_one_line_of_error,
    deltasnap,
    in_a_new_process,
    java_of,
    small_table,
    without_java,
)
from tests.builders import metadata, protocol, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark  # a separate program
def test_help_loads_neither_pyspark_nor_dagster(tmp_path: Path) -> None:
    check = (
        "import sys; sys.argv = ['deltasnap', '--help']\n"
        "from deltasnap_assets.command.cli import run\n"
        "try: run()\nexcept SystemExit: pass\n"
        "print([m for m in ('pyspark', 'dagster', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    result = in_a_new_process(check, tmp_path)
    assert result.returncode == 0
    assert result.stdout.strip().endswith("[]")
    for command in ("demo", "ui", "refresh", "inspect"):
        assert command in result.stdout


@pytest.mark.parametrize("command", [["demo"], ["ui"], ["refresh"]], ids=lambda command: command[0])
def test_command_without_java_prints_what_to_install(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: events, path: events}]", encoding="utf-8")
    write_log(tmp_path / "events", {0: [protocol(), metadata()]})
    result = deltasnap(*command, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found", "Java 17 or later", "JAVA_HOME", "pip install -e '.[java]'")


def test_refresh_without_java_prints_the_problem_of_each_table_as_json(tmp_path: Path) -> None:
    tables = "tables: [{name: events, path: events}, {name: clicks, path: clicks}]"
    (tmp_path / "deltasnap.yaml").write_text(tables, encoding="utf-8")
    write_log(tmp_path / "clicks", {0: [protocol(), metadata()]})
    result = deltasnap("refresh", "--json", "clicks", folder=tmp_path, **without_java(tmp_path))
    (reported,) = json.loads(result.stdout)["rows"]
    assert result.returncode == 1
    assert (reported["table"], reported["versions"]) == ("clicks", [])
    assert reported["error"].startswith("No Java found")


@pytest.mark.spark  # it writes the base that makes Spark unnecessary later
def test_refresh_without_java_refreshes_tables_that_do_not_need_spark(tmp_path: Path, spark: SparkSession) -> None:
    table, _ = small_table(tmp_path / "events"), small_table(tmp_path / "clicks")
    settings = "tables: [{name: events, path: events}, {name: clicks, path: clicks}]\nstorage: store\n"
    (tmp_path / "deltasnap.yaml").write_text(settings, encoding="utf-8")
    store = SnapshotStore.open(spark, str(tmp_path / "store"))
    store.write_range("events", DeltaLog.for_table(spark, table), 0, 1)
    result = deltasnap("refresh", "--json", folder=tmp_path, **without_java(tmp_path))
    found = {row["table"]: row for row in json.loads(result.stdout)["rows"]}
    assert result.returncode == 1
    assert found["clicks"]["error"].startswith("No Java found")
    assert (found["events"]["error"], found["events"]["versions"]) == (None, [0, 1])


FAILING = {
    "no configuration": ["refresh"],
    "no table": ["inspect", "nothing"],
    "secret": ["history", "foo://key:hunter2@lake/events"],
    "wrong use": ["diff", "nothing", "0", "one"],
}


@pytest.mark.parametrize(("arguments", "is_json"), [("--format json", True), ("--format=json", True), ("", False)])
def test_failing_fleet_prints_its_error_in_its_format(arguments: str, is_json: bool, tmp_path: Path) -> None:
    result = deltasnap("fleet", *arguments.split(), folder=tmp_path)
    assert result.stderr.startswith("error: ")
    assert result.stdout == (
        json.dumps({"schema_version": 1, "error": result.stderr.strip()[7:]}) + "\n" if is_json else ""
    )


@pytest.mark.parametrize("case", FAILING)
def test_failing_command_with_json_prints_its_error_as_json(case: str, tmp_path: Path) -> None:
    result = deltasnap(*FAILING[case], "--json", folder=tmp_path)
    assert result.returncode != 0
    reported = json.loads(result.stdout)
    assert result.stderr.strip() == f"error: {reported['error']}"
    assert "hunter2" not in result.stdout


@pytest.mark.parametrize("command", ["ui", "refresh"])
def test_empty_folder_is_reported_with_two_suggestions(command: str, tmp_path: Path) -> None:
    result = deltasnap(command, folder=tmp_path)
    assert_one_line_of_error(
        result,
        f"no `deltasnap.yaml` in {tmp_path} or above it, and `DELTASNAP_CONFIG` is not set",
        "`deltasnap init PATH...`",
        "`deltasnap demo`",
    )
    assert list(tmp_path.iterdir()) == []


WRONG_USES = {
    "no such command": (
        ["inspct"],
        "No such command 'inspct'. Did you mean 'inspect', 'bisect', 'init'? See `deltasnap -h`.",
    ),
    "argument missing": (["inspect"], "Missing argument 'PATH'. See `deltasnap inspect -h`."),
    "no such option": (["history", "t", "--nope"], "See `deltasnap history -h`."),
    "not a number": (["diff", "t", "1", "two"], "See `deltasnap diff -h`."),
    "option without value": (["inspect", "t", "-o", "nonsense"], "Expected KEY=VALUE."),
}


@pytest.mark.parametrize("case", WRONG_USES)
def test_wrong_usage_is_one_line_and_exits_with_2(case: str, tmp_path: Path) -> None:
    arguments, expected = WRONG_USES[case]
    result = deltasnap(*arguments, folder=tmp_path)
    assert_one_line_of_error(result, expected)
    assert result.returncode == 2


def test_command_alone_shows_its_help(tmp_path: Path) -> None:
    result = deltasnap(folder=tmp_path)
    assert "inspect" in result.stdout + result.stderr
    assert "error:" not in result.stderr


def test_storage_without_its_package_reports_what_to_install(tmp_path: Path) -> None:
    without = "import sys; sys.modules['s3fs'] = None\n" + COMMAND
    for arguments in (["history", "s3://lake/events"], ["init", "s3://lake/*"]):
        assert_one_line_of_error(FORKS.run(without, *arguments, cwd=tmp_path), "s3://lake", how_to_install("s3"))


def test_command_with_old_java_prints_what_to_install(tmp_path: Path) -> None:
    result = deltasnap("demo", folder=tmp_path, JAVA_HOME=java_of(tmp_path, "1.8.0_292"), DELTASNAP_JAVA="system")
    assert_one_line_of_error(result, "Java 8 at", "too old", "Java 17 or later")


@pytest.mark.parametrize(
    ("reported", "major"), [("1.8.0_292", 8), ("11.0.2", 11), ("17", 17), ("21.0.1", 21), ("25-ea", 25)]
)
def test_java_major_is_read_from_every_form_of_version(reported: str, major: int, tmp_path: Path) -> None:
    assert java_major(Path(java_of(tmp_path, reported), "bin", "java")) == major


def test_check_java_raises_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DELTASNAP_JAVA", "system")
    with pytest.raises(JavaError, match="none on PATH"):
        check_java()


def test_inspect_path_without_table_is_one_line(tmp_path: Path) -> None:
    assert_one_line_of_error(deltasnap("inspect", "nothing", folder=tmp_path), "No Delta table at", "no such folder")


def test_inspect_of_an_unknown_version_reports_the_range(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("inspect", "t", "--version", "7", folder=tmp_path)
    assert_one_line_of_error(result, "Version 7", "0 to 1")


@pytest.mark.parametrize(
    "arguments",
    [["--version", "1", "--timestamp", "2026-01-01"], ["--timestamp", "yesterday"], ["-o", "nonsense"]],
    ids=["both", "not-a-time", "option-without-value"],
)
def test_inspect_reports_wrong_usage_and_exits_with_2(arguments: list[str], tmp_path: Path) -> None:
    result = deltasnap("inspect", "t", *arguments, folder=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_inspect_of_an_unsupported_table_shows_facts_without_a_replay(tmp_path: Path) -> None:
    small_table(tmp_path / "t", reader_features=("deletionVectors", "fromTheFuture"))
    result = deltasnap("inspect", "t", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "fromTheFuture", "does not support")
    for part in ("a-table", "reader 3, writer 7", "versions 0 to 1", "CREATE TABLE", "ada", "id", "bigint"):
        assert part in result.stdout


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tabels: []\n", ["deltasnap.yaml", "tabels"]),
        ("tables:\n  - path: /x\n", ["deltasnap.yaml", "name"]),
        ("tables: [\n", ["deltasnap.yaml"]),
    ],
    ids=["unknown-key", "missing-name", "not-yaml"],
)
@pytest.mark.parametrize("command", ["refresh", "ui"])
def test_broken_configuration_has_no_traceback(command: str, text: str, parts: list[str], tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    result = deltasnap(command, folder=tmp_path)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr


def test_output_that_cannot_be_written_is_one_line_of_error(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    full = "import os, sys\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nsys.stdout = open(1, 'w')\n" + COMMAND
    for arguments in (["history", "t", "--json"], ["history", "t"]):
        result = FORKS.run(full, *arguments, cwd=tmp_path)
        assert_one_line_of_error(result, "stdout: No space left on device")
        assert result.returncode == 1


@pytest.mark.parametrize(
    ("option", "value"), [("--port", "99999"), ("--port", "0"), ("--host", "no such host"), ("--host", "a" * 100)]
)
def test_ui_names_the_option_with_an_invalid_address(option: str, value: str, tmp_path: Path) -> None:
    result = deltasnap("ui", option, value, folder=tmp_path)
    assert_one_line_of_error(result, f"Invalid value for '{option}'" if option == "--port" else f"{option}: {value!r}")
    assert result.returncode == 2
    assert list(tmp_path.iterdir()) == []


def empty_lake(folder: Path) -> None:
    (folder / "lake").mkdir()
    (folder / "deltasnap.yaml").write_text("storage: store\ndiscover: [{path: lake/*}]", encoding="utf-8")


def test_refresh_without_tables_reports_patterns_without_matches(tmp_path: Path) -> None:
    empty_lake(tmp_path)
    result = deltasnap("refresh", "--json", folder=tmp_path)
    warning, error = result.stderr.strip().splitlines()
    assert result.returncode == 1
    assert warning == f"warning: The pattern {tmp_path}/lake/* matches no table."
    assert error == f"error: {json.loads(result.stdout)['error']}"
    assert "no table to refresh" in error


def test_fleet_without_tables_reports_patterns_without_matches(tmp_path: Path) -> None:
    empty_lake(tmp_path)
    result = deltasnap("fleet", "--json", folder=tmp_path)
    assert result.returncode == 0
    assert result.stderr == f"warning: The pattern {tmp_path}/lake/* matches no table.\n"
    assert json.loads(result.stdout)["rows"] == []


def test_refresh_warns_of_a_discovered_table_that_lost_its_log(tmp_path: Path) -> None:
    empty_lake(tmp_path)
    poll = LastPoll(polled_at_ms=1, path=str(tmp_path / "lake" / "events"))
    SnapshotStore.open(None, tmp_path / "store").polls.write("events", poll)
    _, warning, error = deltasnap("refresh", folder=tmp_path).stderr.strip().splitlines()
    assert warning.startswith(f"warning: events: This table is in the store, but {tmp_path}/lake/events is no longer")
    assert "no table to refresh" in error


def test_refresh_of_unknown_table_lists_configured_tables(tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("tables: [{name: events, path: events}]", encoding="utf-8")
    result = deltasnap("refresh", "evnts", folder=tmp_path)
    assert result.returncode == 2
    assert "evnts" in result.stderr
    assert "events" in result.stderr


@pytest.mark.spark  # a separate program
def test_command_does_not_wait_for_threads_but_runs_what_is_registered_for_the_exit(tmp_path: Path) -> None:
    code = (
        "import atexit, sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "atexit.register(print, 'cleaned up')\n"
        f"sys.argv = ['deltasnap', 'inspect', {str(tmp_path)!r}]\n{COMMAND}"
    )
    done = in_a_new_process(code, tmp_path)
    assert (done.returncode, done.stdout) == (1, "cleaned up\n")
    assert done.stderr.startswith("error:")
