"""`deltasnap bisect` end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, SnapshotStore
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.core.scan.search.bisect_builders import appended

NULL = ("--where", "amount is null")
WRONG = {
    "nothing expected": ([], "found none"),
    "no rule": (["--expect", "most"], "found 'most'"),
    "no columns": (["--unique", ","], "--unique"),
    "file and condition": ([*NULL, "--file", "a"], "a file alone"),
    "ends": ([*NULL, "--good", "1", "--bad", "1"], "found 1 and 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_reported_without_starting_spark(case: str, tmp_path: Path) -> None:
    arguments, reported = WRONG[case]
    small_table(tmp_path / "t")
    result = deltasnap("bisect", "t", *arguments, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, reported)
    assert (result.returncode, result.stdout) == (2, "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a configured table whose version 4 is bad."""
    appended(tmp_path / "t", 7, bad=4)
    (tmp_path / "deltasnap.yaml").write_text("storage: store\ntables: [{name: events, path: t}]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_culprit_is_printed_with_its_commit_its_file_and_its_rows(session: Any, folder: Path) -> None:
    result = run("bisect", "events", *NULL)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Version 4 broke it: version 3 has 0 matching rows, version 4 has 3 matching rows."
    assert [line.split()[:3] for line in lines if "job" in line] == [["job", "bad", "job"]]
    assert "(added, 3 matching rows)" in result.stdout
    assert "It is the first one if all later versions fail too." in result.stdout
    assert [line.split() for line in lines[-3:]] == [[str(n), f"d{n % 2}", "null", "insert"] for n in (12, 13, 14)]
    first = run("bisect", "events", *NULL, "--first", "--limit", "2")
    assert "It is the first one if" not in first.stdout
    assert "There are more rows" in first.stderr


def test_json_and_csv_have_the_result(session: Any, folder: Path) -> None:
    result = run("bisect", "./t", *NULL, "--json")
    found = json.loads(result.stdout)
    assert (found["schema_version"], found["outcome"], found["version"]) == (1, "found", 4)
    assert (found["first_possible"], found["last_possible"], found["is_first"]) == (4, 4, False)
    assert (found["operation"], found["job"], found["user"], found["notebook"]) == ("WRITE", "bad job", None, None)
    assert [(file["is_added"], file["rows"]) for file in found["files"]] == [(True, 3)]
    assert sorted(row["id"] for row in found["rows"]) == [12, 13, 14]
    assert found["steps"][0] == {"version": 6, "number": 3, "holds": False, "files_read": 1, "problem": None}
    result = run("bisect", "./t", *NULL, "--format", "csv")
    assert sorted(row["id"] for row in csv.DictReader(io.StringIO(result.stdout))) == ["12", "13", "14"]


def test_nothing_to_find_exits_with_1_and_says_why(session: Any, folder: Path) -> None:
    held = run("bisect", "t", *NULL, "--bad", "3")
    assert (held.exit_code, held.stdout) == (1, "Nothing to find: version 3 holds (0 matching rows).\n")
    failed = run("bisect", "t", *NULL, "--good", "4", "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["outcome"]) == (1, "failed_before")
    text = run("bisect", "t", *NULL, "--good", "4").stdout
    assert text == "Nothing to find: version 4, the good end, already fails (3 matching rows).\n"


def test_invalid_condition_is_wrong_usage(session: Any, folder: Path) -> None:
    result = run("bisect", "t", "--where", "nothing = 1")
    assert result.exit_code == 2
    assert "nothing" in result.stderr or "nothing" in str(result.exception)


def test_configured_table_is_searched_in_the_store_if_its_log_is_gone(session: Any, folder: Path) -> None:
    store = SnapshotStore.open(session, folder / "store")
    store.write_range("events", DeltaLog.for_table(session, folder / "t"), 0, 6)
    for file in (folder / "t" / "_delta_log").iterdir():
        file.unlink()
    DeltaLog.clear_cache()
    result = run("bisect", "events", *NULL, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["version"] == 4


def test_good_end_that_fails_says_which_versions_were_not_tried(session: Any, tmp_path: Path) -> None:
    for version in range(5):
        write_deltalake(tmp_path, pa.table({"id": [version], "amount": pa.nulls(1, pa.int64())}), mode="overwrite")
    for version in (0, 2):
        Path(DeltaTable(tmp_path, version=version).file_uris()[0]).unlink()
    hint = "Earlier versions may hold it. --first tries every one of them."
    lines = run("bisect", tmp_path, *NULL).stdout.splitlines()
    assert lines[0] == "Nothing to find: version 3, the good end, already fails (1 matching row)."
    assert (lines[1].startswith("Version 2 cannot be judged"), lines[2:]) == (True, [hint])
    first = run("bisect", tmp_path, *NULL, "--first").stdout
    assert first.startswith("Nothing to find: version 1, the good end, already fails")
    assert hint not in first
