"""`deltasnap verify` lists files that are missing or have the wrong size."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deltasnap_assets.command.views.condition_view import FaultyTableError
from deltasnap_assets.command.views.verify_view import _print, is_damaged, show_file_problems
from deltasnap_core.scan.tables import file_problems
from deltasnap_core.support import commit_file
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.tables.vacuum_candidates_builders import PlainKeys


def row(path: str, problem: str, size: int | None = None, listed_size: int | None = None) -> dict[str, Any]:
    certain = problem in ("missing", "wrong size")
    return {"path": path, "problem": problem, "certain": certain, "size": size, "listed_size": listed_size}


def printed(*problems: dict[str, Any], files: int = 3, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    _print(console, 4, files, problems)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_problems_are_counted_and_the_certain_ones_come_first() -> None:
    assert printed(
        row("a", "outside"), row("b", "missing", 2048), row("c", "missing", 1), row("d", "wrong size", 2, 0)
    ) == [
        "Version 4 has 3 files: 2 missing, 1 outside, 1 wrong size.",
        " file  problem     size in the log  size in storage",
        " b     missing               2 KiB",
        " c     missing                 1 B",
        " d     wrong size              2 B              0 B",
        " a     outside",
    ]


def test_path_of_a_file_is_whole_on_a_narrow_terminal() -> None:
    path = f"day=2026-01-01/part-00000-{'0123456789' * 5}.zstd.parquet"
    lines = printed(row(path, "missing", 486), width=60)
    assert "".join(line.split()[0] for line in lines[2:]) == path


def test_table_without_problems_is_one_line() -> None:
    assert printed(files=1) == ["Version 4 has 1 file, all in storage."]


def test_fifty_files_are_shown_and_the_number_of_the_others() -> None:
    lines = printed(*(row(f"{number:02}", "missing") for number in range(52)))
    assert (len(lines), lines[-2].split(), lines[-1]) == (53, ["49", "missing"], " and 2 more")
    assert printed(*(row(f"{number:02}", "missing") for number in range(50)))[-1].split() == ["49", "missing"]


@pytest.mark.parametrize(("problem", "expected"), [("missing", True), ("outside", False)])
def test_table_is_damaged_only_if_a_problem_is_certain(problem: str, expected: bool) -> None:
    assert is_damaged([row("a", problem)]) is expected


def test_verify_without_java_prints_what_to_install(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("verify", "t", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found", "Java 17 or later")


def test_fault_of_an_earlier_version_is_reported_with_advice(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    write_checkpoint(log, 2, "classic", [protocol(), metadata(), add("a"), add("b")])
    (log / commit_file(1)).unlink()
    with pytest.raises(FaultyTableError) as raised:
        show_file_problems(str(tmp_path), {}, 1, "table")
    assert raised.value.lines[0].startswith("The commit of version 1 is missing in the log of ")


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_missing_file_is_shown_with_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_problems, "FileKeys", PlainKeys)
    write_log(tmp_path, {0: [protocol(), metadata(), add("a", size=1)], 1: [add("b", size=2)]})
    (tmp_path / "a").write_bytes(b"?")
    assert run("verify", tmp_path, "--version", 0).stdout == "Version 0 has 1 file, all in storage.\n"
    result = run("verify", tmp_path, "--json")
    assert json.loads(result.stdout) == {
        "schema_version": 1,
        "path": str(tmp_path),
        "version": 1,
        "files": 2,
        "rows": [row("b", "missing", 2)],
    }
    assert result.exit_code == 1
    found = run("verify", tmp_path, "--format", "csv")
    assert (found.exit_code, found.stdout) == (
        1,
        "path,problem,certain,size,listed_size\nb,missing,true,2,\n",
    )
