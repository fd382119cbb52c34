"""`deltasnap vacuum --dry-run` and `deltasnap verify`, which lists files that are missing or have the wrong size."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from deltasnap_assets.command.commands.table_commands import vacuum
from deltasnap_assets.command.views import vacuum_view
from deltasnap_assets.command.views.condition_view import FaultyTableError
from deltasnap_assets.command.views.vacuum_view import VacuumReport, _condition
from deltasnap_assets.command.views.verify_view import _print, is_damaged, show_file_problems
from deltasnap_core import DeltaLog, ProblemKind, TableLog, VacuumSummary
from deltasnap_core.scan.tables import file_problems, vacuum_candidates
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from deltasnap_core.support import VacuumGroup, commit_file
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import CountingLogStore, add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.tables.vacuum_candidates_builders import PlainKeys


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_without_dry_run_nothing_is_done_and_an_error_is_printed(arguments: list[str], tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("vacuum", "t", *arguments, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "deltasnap never deletes files")
    assert result.returncode == 2


def test_retention_is_given_in_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(vacuum_view, "show_vacuum", lambda *given, **named: shown.append((*given, named)))
    vacuum("t", dry_run=True, retain=0.5, option=["a=b"], as_json=True)
    vacuum("t", dry_run=True, retain=0)
    vacuum("t", dry_run=True)
    assert shown == [
        ("t", {"a": "b"}, {"retention_ms": 1_800_000, "form": "json"}),
        ("t", {}, {"retention_ms": 0, "form": "table"}),
        ("t", {}, {"retention_ms": None, "form": "table"}),
    ]


def test_vacuum_without_java_prints_what_to_install(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("vacuum", "t", "--dry-run", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found", "Java 17 or later")


CASES: dict[str, tuple[list[int], str, int | None, int | None]] = {
    "versions before the removal": ([0, 1, 2, 3, 4], "expired tombstone", 3, 3),
    "only versions that are no longer loadable": ([3, 4], "expired tombstone", 2, None),
    "an orphan": ([0, 1, 2], "orphan", None, None),
    "the removing commit is missing": ([2, 7, 8], "expired tombstone", None, 7),
    "a removal before a gap": ([2, 7, 8], "expired tombstone", 2, 7),
    "removals on both sides of a gap": ([2, 7, 8], "expired tombstone", 8, 8),
    "no commits": ([7], "expired tombstone", None, None),
}


@pytest.mark.parametrize("case", CASES)
def test_time_travel_shrinks_to_the_first_version_that_keeps_its_files(case: str) -> None:
    loadable, reason, removed, expected = CASES[case]
    group = VacuumGroup(folder="", reason=reason, age_days=7, num_files=1, size_in_bytes=1, num_without_size=0)
    summary = VacuumSummary(retention_ms=0, deleted=(group,), protected=(), first_readable_version=removed)
    report = VacuumReport(path="t", version=loadable[-1], loadable=loadable, table_retention_ms=0, summary=summary)
    assert report.first_readable_version == expected


def test_folder_is_whole_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    folder = f"customer={'0123456789' * 5}"
    group = VacuumGroup(folder=folder, reason="orphan", age_days=7, num_files=1, size_in_bytes=1, num_without_size=0)
    Console(width=60).print(vacuum_view._table((group,)))
    assert "".join(line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]) == folder


def write(path: Path, day: str, ids: list[int], mode: Any) -> None:
    from deltalake import write_deltalake

    predicate = f"day = '{day}'" if mode == "overwrite" else None
    rows = pa.table({"id": pa.array(ids, pa.int64()), "day": [day] * len(ids)})
    write_deltalake(path, rows, mode=mode, partition_by=["day"], predicate=predicate)


@pytest.mark.thorough
@pytest.mark.spark
def test_versions_lose_the_predicted_files(session: Any, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "events"
    write(path, "2026-01-01", [1], "append")
    write(path, "2026-01-02", [2], "append")
    write(path, "2026-01-01", [3], "overwrite")  # version 2 removes the file of version 0
    write(path, "2026-01-03", [4], "append")
    (path / "day=2026-01-02" / "orphan.parquet").write_bytes(b"???")

    report = json.loads(run("vacuum", path, "--dry-run", "--retain", 0, "--json").stdout)
    assert (report["version"], report["earliest_version"], report["first_readable_version"]) == (3, 0, 2)
    assert report["files"] == 2
    assert {
        (group["is_deleted"], group["folder"], group["reason"], group["files"], group["age_days"])
        for group in report["rows"]
    } == {(True, "day=2026-01-01", "expired tombstone", 1, 0), (True, "day=2026-01-02", "orphan", 1, 0)}

    frame = DeltaLog.for_table(session, path).update().tables.vacuum_candidates(list_files=True, retention_ms=0)
    for row in frame.where("not protected").collect():
        (path / row.path).unlink()
    readable = []
    for version in range(4):
        try:
            deltalake.DeltaTable(path, version=version).to_pyarrow_table()
            readable.append(version)
        except FileNotFoundError:
            pass
    assert readable == [2, 3]


@pytest.mark.usefixtures("session")
def test_retention_of_the_table_keeps_young_files_and_a_missing_commit_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    monkeypatch.setattr(vacuum_candidates, "FileKeys", PlainKeys)
    path = tmp_path / "events"
    write(path, "2026-01-01", [1], "append")
    write(path, "2026-01-01", [2], "overwrite")
    result = run("vacuum", path, "--dry-run")
    assert result.stdout == (
        "VACUUM would delete nothing (retention 168 hours).\nKept: 1 file (tombstone has not expired).\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    write(path, "2026-01-02", [3], "append")
    deltalake.DeltaTable(path).create_checkpoint()
    (path / "_delta_log" / commit_file(1)).unlink()
    short = run("vacuum", path, "--dry-run", "--retain", 0)
    assert short.exit_code == 0
    assert "VACUUM would delete 1 file of" in short.stdout
    assert "Time travel would reach back to version 2; now the log reaches back to version 0." in short.stdout
    assert "error: The commit of version 1 is missing in the log of " in short.stderr
    assert "warning: A retention of 0 hours is shorter than that of the table, 168 hours" in short.stderr


def test_faults_are_reported_without_reading_a_commit_again(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [], 4: []})
    store = CountingLogStore(FsspecLogStore())
    condition = _condition(TableLog(store, f"{to_url(tmp_path)}/_delta_log"))
    assert [fault.kind for fault in condition.faults] == [ProblemKind.MISSING_COMMIT, ProblemKind.EMPTY_COMMIT]
    assert not [path for path in (*store.reads, *store.opens) if path.endswith(".json")]


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
    assert (found.exit_code, found.stdout) == (1, "path,problem,certain,size,listed_size\nb,missing,true,2,\n")
