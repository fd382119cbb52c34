"""`deltasnap table`: metadata tables of a version."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, get_args

import pyarrow.parquet as pq
import pytest

from deltasnap_assets.command.commands.metadata_command import MetadataTable
from deltasnap_core import Table
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, without_java
from tests.assets.command.commands.driver_commands_builders import run, table


def rows(*arguments: object) -> list[dict[str, Any]]:
    result = run("table", *arguments, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_history_properties_and_files_of_a_small_table_need_no_java(tmp_path: Path) -> None:
    table(tmp_path)
    found = {}
    for name in ("history", "properties", "files"):
        result = deltasnap("table", "events", name, "--format", "json", folder=tmp_path, **without_java(tmp_path))
        assert (result.returncode, result.stderr) == (0, "")
        found[name] = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["operation"] for row in found["history"]] == [
        "DELETE",
        "RESTORE",
        "SET TBLPROPERTIES",
        "MERGE",
        "CREATE TABLE",
    ]
    assert {"key": "x", "value": "1"} in found["properties"]
    assert {row["path"] for row in found["files"]} == {"a", "c"}


def test_table_that_needs_spark_without_java_prints_what_to_install(tmp_path: Path) -> None:
    table(tmp_path)
    result = deltasnap("table", "events", "partitions", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found", "Java 17 or later")


def test_version_columns_and_limit_are_chosen(tmp_path: Path) -> None:
    path = table(tmp_path)
    found = rows(path, "files", "--version", 1, "--columns", "size,path")
    assert sorted(map(tuple, map(dict.items, found))) == [(("size", 10), ("path", "a")), (("size", 30), ("path", "c"))]
    assert rows(path, "history", "--limit", 1, "--columns", "version") == [{"version": 4}]
    assert rows(path, "history", "--timestamp", "2023-11-14T22:15:30Z", "--columns", "version")[0] == {"version": 2}


def test_rows_left_out_by_the_default_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(tmp_path)
    monkeypatch.setattr("deltasnap_assets.command.rows.row_options.DEFAULT_LIMIT", 2)
    result = run("table", path, "history", "--format", "csv", "--columns", "version")
    assert result.stdout == "version\n4\n3\n"
    assert result.stderr == "Only 2 rows are shown; there are more. --limit 0 shows all.\n"
    result = run("table", path, "history", "--format", "csv", "--columns", "version", "--limit", 0)
    assert (len(result.stdout.splitlines()), result.stderr) == (6, "")


def test_rows_are_written_to_a_file_in_its_format(tmp_path: Path) -> None:
    path = table(tmp_path)
    assert run("table", path, "files", "--output", tmp_path / "files.parquet").exit_code == 0
    assert sorted(pq.read_table(tmp_path / "files.parquet")["path"].to_pylist()) == ["a", "c"]
    assert run("table", path, "files", "-O", tmp_path / "files.csv").exit_code == 0
    found = [*csv.DictReader(io.StringIO((tmp_path / "files.csv").read_text(encoding="utf-8")))]
    assert {(row["path"], row["size"], row["partitionValues"], row["stats"]) for row in found} == {
        ("a", "10", "{}", ""),
        ("c", "30", "{}", ""),
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing"], "Invalid value for 'NAME': 'nothing' is not one of 'files', 'history',"),
        (
            ["files", "--columns", "path,nope"],
            "Invalid value for --columns: There is no column 'nope'; there are path,",
        ),
        (["files", "--version", "1", "--timestamp", "2026-01-01"], "Give --version or --timestamp, not both."),
        (["files", "--out", "nowhere/x"], "Invalid value for --out: There is no folder"),
        (["files", "--version", "9"], "Version 9"),
    ],
)
def test_wrong_argument_is_one_line_of_error(arguments: list[str], expected: str, tmp_path: Path) -> None:
    table(tmp_path)
    assert_one_line_of_error(deltasnap("table", "events", *arguments, folder=tmp_path), expected)


def test_each_metadata_table_is_a_member_of_a_table() -> None:
    public = {name: value for name, value in vars(Table).items() if callable(value) and not name.startswith("_")}
    tables = {name for name, value in public.items() if value.__annotations__.get("return") == "TableRows"}
    assert set(get_args(MetadataTable)) == tables - {"scan", "storage_groups"}  # `size --by` shows these groups


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_rows_are_those_for_which_a_condition_is_true(tmp_path: Path) -> None:
    path = table(tmp_path)
    assert rows(path, "files", "--where", "size > 20", "--columns", "path") == [{"path": "c"}]
    assert rows(path, "history", "--where", "operation = 'MERGE'", "--columns", "version") == [{"version": 1}]
    assert rows(path, "properties", "--where", "`key` like 'x%'") == [{"key": "x", "value": "1"}]
    assert rows(path, "tombstones", "--where", "path = 't'", "--columns", "path") == [{"path": "t"}]
    (whole,) = rows(path, "partitions", "--where", "bytes > 1")
    assert (whole["files"], whole["bytes"]) == (2, 40)


@pytest.mark.spark
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("size > (select 1)", "a query cannot be used here (at character 9)"),
        (
            "reflect('java.lang.System', 'exit') = 'x'",
            "a function that calls Java cannot be used here (at character 1)",
        ),
        ("count(*) > 1", "an aggregate cannot be used here"),
        ("nope = 1", "has no column nope"),
        ("size >", "--where"),
        ("cast(path as int) = 1", "it fails for some row"),
    ],
)
def test_condition_is_that_of_a_scan(where: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 1000)
    result = run("table", table(tmp_path), "files", "--where", where)
    assert result.exit_code == 2
    assert reason in result.output
