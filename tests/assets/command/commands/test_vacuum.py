"""`deltasnap vacuum --dry-run` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from deltasnap_assets.command.commands.table_commands import vacuum
from deltasnap_assets.command.views import vacuum_view
from deltasnap_assets.command.views.vacuum_view import VacuumReport, _condition
from deltasnap_core import (
    DeltaLog,
    ProblemKind,
    TableLog,
    VacuumSummary,
)
from deltasnap_core.scan.tables import vacuum_candidates
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from deltasnap_core.support import VacuumGroup, commit_file
from tests.assets.command.cli_builders import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import CountingLogStore, add, metadata, protocol, write_log
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
    } == {
        (True, "day=2026-01-01", "expired tombstone", 1, 0),
        (True, "day=2026-01-02", "orphan", 1, 0),
    }

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


@pytest.mark.spark
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
