"""`deltasnap scan` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from deltasnap_assets.command.arguments import column_names
from deltasnap_assets.demo.demo_table import grow
from deltasnap_core import DeltaSnapError
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, metadata, protocol, write_log


def test_scan_without_java_prints_what_to_install(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("scan", "t", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found", "Java 17 or later", "JAVA_HOME")
    assert result.stdout == ""


WRONG = {
    "no such version": (["--version", "9"], 1, "Available: 0 to 1"),
    "both": (["--version", "1", "--timestamp", "2026-01-01"], 2, "not both"),
    "not a time": (["--timestamp", "now"], 2, "Expected a time"),
    "no columns": (["--columns", ","], 2, "names of columns"),
    "no folder": (["-O", "none/rows.csv"], 2, "There is no folder"),
    "format": (["--format", "xml"], 2, "xml"),
    "gate without a report": (["--min-skipped", "60"], 2, "Give --explain too"),
    "more than all files": (["--explain", "--min-skipped", "101"], 2, "less than or equal to 100"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_reported_without_starting_spark(case: str, tmp_path: Path) -> None:
    arguments, code, reported = WRONG[case]
    small_table(tmp_path / "t")
    result = deltasnap("scan", "t", *arguments, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, reported)
    assert result.returncode == code
    assert result.stdout == ""


def test_scan_of_a_broken_table_reports_its_fault(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    (table / "_delta_log" / f"{1:020}.json").write_text("{", encoding="utf-8")
    result = deltasnap("scan", "t", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, f"{1:020}.json")


@pytest.mark.parametrize(
    ("text", "names"),
    [("id", ("id",)), (" id , a.b ", ("id", "a.b")), ("`a,b`,c", ("`a,b`", "c")), ("a `x,y` b", ("a `x,y` b",))],
)
def test_names_of_columns_are_separated_by_commas(text: str, names: tuple[str, ...]) -> None:
    assert column_names(text) == names


@pytest.mark.parametrize("text", ["", ",", "id, ,b", "id, ", "id,", ",id", "id,,b", "a`b", "`a"])
def test_empty_or_unclosed_name_of_a_column_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="Expected names of columns"):
        column_names(text)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two versions; the first has two partitions of two rows each."""
    rows = {
        "a": pa.table({"id": [1, 2], "text": ["\x1b[31m", None], "at": pa.array([0, 1], pa.timestamp("us", "UTC"))}),
        "b": pa.table({"id": [3, 4], "text": ["", ","], "at": pa.array([0, 1], pa.timestamp("us", "UTC"))}),
        "c": pa.table({"id": pa.array(range(100), pa.int64()), "text": ["x"] * 100}),
    }
    path = tmp_path / "t"
    path.mkdir()
    adds = {}
    for name, data in rows.items():
        pq.write_table(data, path / name)
        day = "2026-01-02" if name == "b" else "2026-01-01"
        adds[name] = add(name, size=(path / name).stat().st_size, partitionValues={"day": day})
    names = {"id": "long", "text": "string", "at": "timestamp", "day": "date"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in names.items()]
    described = metadata(schemaString=json.dumps({"type": "struct", "fields": fields}), partitionColumns=["day"])
    write_log(path, {0: [protocol(), described, adds["a"], adds["b"]], 1: [adds["c"]]})
    return path


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_rows_of_a_version_are_written_exactly(table: Path) -> None:
    result = run("scan", table, "--version", 0, "--format", "json", "--where", "day = '2026-01-01'")
    assert result.exit_code == 0, result.output
    assert sorted(map(json.loads, result.stdout.splitlines()), key=lambda row: int(row["id"])) == [
        {"id": 1, "text": "\x1b[31m", "at": "1970-01-01T00:00:00Z", "day": "2026-01-01"},
        {"id": 2, "text": None, "at": "1970-01-01T00:00:00.000001Z", "day": "2026-01-01"},
    ]
    assert result.stderr == ""


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_notice_of_the_default_limit_appears_only_if_it_truncates(table: Path) -> None:
    cut = run("scan", table, "--format", "csv")
    assert len(cut.stdout.splitlines()) == 1 + 20
    assert cut.stderr == "Only 20 rows are shown; there are more. --limit 0 shows all.\n"
    chosen = run("scan", table, "--format", "csv", "--limit", 7)
    assert (len(chosen.stdout.splitlines()) - 1, chosen.stderr) == (7, "")


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_selected_columns_are_csv_in_their_order_and_the_report_on_stderr_lists_read_files(table: Path) -> None:
    where = "day = '2026-01-02' and length(text) >= 0"
    result = run("scan", table, "--where", where, "--explain", "--format", "csv", "--columns", "text,id")
    assert sorted(result.stdout.splitlines()) == ['"",3', '",",4', "text,id"]
    first, second, *reasons = result.stderr.splitlines()
    assert first.startswith("Version 1: 1 of 3 files may contain the rows, ")
    assert second == "Skipped by partition values: 2 files. Skipped by statistics: 0 files."
    assert reasons == ["Selects files: day = '2026-01-02'", "Selects rows only: length(text) >= 0"]


@pytest.mark.usefixtures("session")
def test_explanation_as_json_has_no_rows_and_fails_below_the_expected_percentage(table: Path, tmp_path: Path) -> None:
    where = ("--where", "day = '2026-01-02' and length(text) >= 0", "--explain", "--format", "json")
    enough = run("scan", table, *where, "--min-skipped", 66, "--assert-statistics")
    found = json.loads(enough.stdout)
    assert (enough.exit_code, enough.stderr) == (0, "")
    assert {name: found[name] for name in ("schema_version", "version", "files_total", "files_read", "passed")} == {
        "schema_version": 1,
        "version": 1,
        "files_total": 3,
        "files_read": 1,
        "passed": True,
    }
    assert 0 < found["bytes_read"] < found["bytes_total"]
    assert found["skipped_percent"] == 66.667
    assert found["conditions"] == [
        {"condition": "day = '2026-01-02'", "files_skipped": 2, "files_without_statistics": 0, "reason": None},
        {
            "condition": "length(text) >= 0",
            "files_skipped": 0,
            "files_without_statistics": 0,
            "reason": "partition values and statistics cannot decide it",
        },
    ]
    few = run("scan", table, *where, "--min-skipped", 67, "-O", tmp_path / "report.json")
    assert (few.exit_code, few.stdout) == (1, "")
    assert "Expected at least 67 % of the files to be skipped, found 66.7 %." in few.stderr
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["passed"] is False


@pytest.mark.usefixtures("session")
def test_gate_without_json_reads_no_rows_and_reports_missing_statistics(tmp_path: Path) -> None:
    write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a", stats='{"numRecords":1}'), add("b")]})
    arguments = ("--where", "id > 1", "--explain", "--assert-statistics")
    found = run("scan", tmp_path / "t", *arguments)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "2 of 2 files have no statistics that decide the condition id > 1." in found.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_file_has_every_row_in_the_types_of_the_table(table: Path, tmp_path: Path) -> None:
    result = run("scan", table, "--limit", 0, "-O", tmp_path / "rows.parquet")
    assert (result.exit_code, result.output) == (0, "")
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert rows.num_rows == 104
    assert dict(zip(rows.column_names, map(str, rows.schema.types), strict=True)) == {
        "id": "int64",
        "text": "string",
        "at": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
    }


@pytest.mark.spark
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--where", "id >"), "--where"),
        (("--where", "nope > 1"), "nope"),
        (("--where", "id / 0 = 1"), "DIVIDE_BY_ZERO"),
        (("--where", "id / 0 = 1", "--limit", "0"), "DIVIDE_BY_ZERO"),
        (("--columns", "nope"), "no column 'nope'"),
    ],
)
def test_invalid_condition_or_column_is_wrong_usage(arguments: tuple[str, ...], reported: str, table: Path) -> None:
    result = run("scan", table, *arguments)
    assert result.exit_code == 2
    assert reported in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("session")
def test_missing_data_file_is_named(table: Path) -> None:
    (table / "b").unlink()
    result = run("scan", table)
    assert result.exit_code == 1
    assert isinstance(result.exception, DeltaSnapError)
    assert "/t/b" in str(result.exception)


@pytest.mark.usefixtures("session")
def test_versions_have_the_rows_that_deltalake_reads(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    list(grow(tmp_path / "events", 14))
    for version in (4, 13):
        out = tmp_path / f"{version}.parquet"
        result = run("scan", tmp_path / "events", "--version", version, "--limit", 0, "-O", out)
        assert result.exit_code == 0, result.output
        expected = deltalake.DeltaTable(tmp_path / "events", version=version).to_pyarrow_table()
        assert by_id(pq.read_table(out)) == by_id(expected)


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows.sort_by("id").to_pylist() if "id" in rows.column_names else rows.to_pylist()
    return found
