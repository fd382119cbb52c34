"""`deltasnap blame` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.core.scan.search.bisect_builders import appended


@pytest.mark.parametrize("arguments", [[], ["--key", "id"], ["--key", "=7"], ["--key", "id=7", "--key", "id=8"]])
def test_key_must_have_names_and_values(arguments: list[str], tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("blame", "t", *arguments, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "--key")
    assert (result.returncode, result.stdout) == (2, "")


def test_history_of_a_row_names_who_changed_it_and_its_values(session: Any, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 3, bad=-1)
    by = CommitProperties(custom_metadata={"userName": "ann", "job": "repair"})
    DeltaTable(path).update(updates={"amount": "2.5"}, predicate="id = 4", commit_properties=by)
    DeltaTable(path).delete("id = 4")
    result = run("blame", path, "--key", "id=4", "--key", "day=d1")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [(line[0], line[3], line[4]) for line in lines[1:]] == [
        ("1", "insert", "WRITE"),
        ("3", "update", "UPDATE"),
        ("4", "delete", "DELETE"),
    ]
    assert "user ann; job repair" in result.stdout
    assert "amount: 1.0 -> 2.5" in result.stdout
    found = json.loads(run("blame", path, "--key", "id=4", "--json").stdout)
    assert (found["schema_version"], found["where"], found["unread"]) == (1, "`id` = 4", [])
    update = found["rows"][1]
    assert (update["version"], update["first_possible"], update["change"], update["user"]) == (3, 3, "update", "ann")
    assert (update["old"]["amount"], update["new"]["amount"]) == (1.0, 2.5)


def test_update_shows_the_values_that_changed_another_zero_too(session: Any, tmp_path: Path) -> None:
    for amount, fields in ((0.0, {}), (-0.0, {}), ("-0", {}), ("-0", {"id": [4], "x": ["y"]})):
        rows = pa.table(fields or {"id": [4], "amount": [amount]})
        write_deltalake(tmp_path, rows, mode="overwrite", schema_mode="overwrite")
    lines = run("blame", tmp_path, "--key", "id=4").stdout.splitlines()
    assert [line.partition("engine ")[2].partition("  ")[2].strip() for line in lines[2:]] == [
        "amount: 0.0 -> -0.0",
        "amount: -0.0 -> -0",
        "x: null -> y",
    ]


def test_row_that_never_was_exits_with_1(session: Any, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 2, bad=-1)
    result = run("blame", path, "--key", "id=99")
    assert (result.exit_code, result.stdout) == (1, "No version has a row with `id` = 99.\n")
    for key, reported in (("nothing=1", "no column 'nothing'"), ("id=x", "a value of type long")):
        wrong = run("blame", path, "--key", key)
        assert wrong.exit_code == 2
        assert reported in wrong.output + str(wrong.exception)
