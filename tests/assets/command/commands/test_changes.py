"""`deltasnap changes` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core.support import commit_file
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, metadata, protocol, remove, write_log

WRONG = {
    "no such version": (["0", "9"], 1, "Available: 0 to 1"),
    "backwards": (["1", "0"], 2, "Expected the first version before the last"),
    "no key": (["0", "1", "--key", ","], 2, "--key"),
    "no columns": (["0", "1", "--columns", ","], 2, "--columns"),
    "no folder": (["0", "1", "-O", "none/rows.csv"], 2, "There is no folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_reported_without_starting_spark(case: str, tmp_path: Path) -> None:
    arguments, code, reported = WRONG[case]
    small_table(tmp_path / "t")
    result = deltasnap("changes", "t", *arguments, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, reported)
    assert (result.returncode, result.stdout) == (code, "")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose second version rewrites a file: one row is copied, one updated."""
    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", "b"]}), path / "old.parquet")
    pq.write_table(pa.table({"id": [1, 2], "text": ["a", "c"]}), path / "new.parquet")
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in KINDS.items()]
    first = [protocol(), metadata(schemaString=json.dumps({"type": "struct", "fields": fields})), add("old.parquet")]
    write_log(path, {0: first, 1: [remove("old.parquet"), add("new.parquet")]})
    return path


KINDS = {"id": "long", "text": "string"}


def test_changes_by_key_as_json(session: Any, table: Path) -> None:
    result = run("changes", str(table), "1", "1", "--key", "id", "--format", "json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted((row["id"], row["text"], row["_change_type"], row["_commit_version"]) for row in rows) == [
        (2, "b", "update_preimage", 1),
        (2, "c", "update_postimage", 1),
    ]


def test_net_changes_with_a_condition_as_a_file(session: Any, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    where = "_change_type = 'insert'"
    result = run("changes", str(table), "0", "1", "--net", "--where", where, "--columns", "text", "-O", str(out))
    assert result.exit_code == 0, result.output
    assert pq.read_table(out)["text"].to_pylist() in (["a", "c"], ["c", "a"])
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [["--where", "nothing = 1"], ["--key", "nothing"], ["--columns", "nothing"]], ids=lambda each: each[0]
)
def test_unknown_columns_are_wrong_usage(session: Any, table: Path, arguments: list[str]) -> None:
    result = run("changes", str(table), "0", "1", *arguments)
    assert result.exit_code == 2
    assert "nothing" in result.output


@pytest.mark.spark
def test_condition_that_fails_for_a_row_is_wrong_usage(session: Any, table: Path) -> None:
    result = run("changes", str(table), "0", "1", "--where", "id / 0 = 1")
    assert result.exit_code == 2
    assert "DIVIDE_BY_ZERO" in result.output


@pytest.mark.usefixtures("session")
@pytest.mark.spark
def test_missing_commit_between_the_versions_is_explained(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "events"
    for number in range(4):
        deltalake.write_deltalake(path, pa.table({"id": [number]}), mode="append")
        if number == 2:
            deltalake.DeltaTable(path).create_checkpoint()
    (path / "_delta_log" / commit_file(1)).unlink()
    result = run("changes", path, 0, 3)
    assert result.exit_code == 1
    assert "The commit of version 1 is missing in the log of" in f"{result.exception} {result.stderr}"
