"""`deltasnap vacuum --dry-run` end to end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import Result

from deltasnap_assets.command.views import vacuum_view
from deltasnap_assets.command.views.vacuum_view import VacuumReport, _condition
from deltasnap_core import DeltaLog, FaultKind, TableLog, VacuumGroup, VacuumSummary, commit_file
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from tests.assets.command.test_cli import assert_one_line_of_error, deltasnap, small_table, without_java
from tests.assets.command.test_driver_commands import run
from tests.builders import CountingLogStore, add, metadata, protocol, write_log


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_without_dry_run_nothing_is_done_and_an_error_is_printed(arguments: list[str], tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("vacuum", "t", *arguments, folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "deltasnap never deletes files")
    assert result.returncode == 2


def test_vacuum_without_java_prints_what_to_install(tmp_path: Path) -> None:
    small_table(tmp_path / "t")
    result = deltasnap("vacuum", "t", "--dry-run", folder=tmp_path, **without_java(tmp_path))
    assert_one_line_of_error(result, "No Java found", "Java 17 or later")


CASES: dict[str, tuple[list[int], str, int | None, int | None]] = {
    "versions before the removal": ([0, 1, 2, 3, 4], "expired tombstone", 3, 3),
    "only versions that are no longer loadable": ([3, 4], "expired tombstone", 2, None),
    "an orphan": ([0, 1, 2], "orphan", None, None),
    "the removing commit is missing": ([2, 7, 8], "expired tombstone", None, 7),
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


def group(folder: str, files: int, reason: str = "orphan", age: int | None = 7, unknown: int = 0) -> VacuumGroup:
    return VacuumGroup(
        folder=folder,
        reason=reason,
        age_days=age,
        num_files=files,
        size_in_bytes=1024 * files,
        num_without_size=unknown,
    )


def summary(*deleted: VacuumGroup, **values: Any) -> VacuumSummary:
    known = {"retention_ms": 7 * 86_400_000, "protected": (), "first_readable_version": None}
    return VacuumSummary(**{**known, "deleted": deleted, **values})


@pytest.fixture
def vacuum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command for a table of three versions, with a given summary in place of Spark."""
    write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    monkeypatch.setenv("COLUMNS", "100")

    def run_with(found: VacuumSummary, *arguments: str) -> Result:
        def vacuum_summary(retention_ms: int | None) -> VacuumSummary:
            return found if retention_ms is None else replace(found, retention_ms=retention_ms)

        def snapshot_at(number: int) -> Any:
            log = TableLog.for_path(tmp_path / "t").at(number)
            tables = SimpleNamespace(vacuum_summary=vacuum_summary)
            return SimpleNamespace(version=number, metadata=log.metadata, tables=tables)

        log = SimpleNamespace(get_snapshot_at=snapshot_at)
        monkeypatch.setattr(vacuum_view, "delta_log_of", lambda *_: log)
        monkeypatch.setattr(vacuum_view, "spark_aside", lambda _: nullcontext())
        return run("vacuum", tmp_path / "t", "--dry-run", *arguments)

    return run_with


def test_files_to_delete_are_shown_by_folder_age_and_reason(vacuum: Callable[..., Result]) -> None:
    kept = (group("", 2, "tombstone has not expired"), group("x", 3, "young"), group("y", 2, "young"))
    found = summary(
        group("", 1, "expired tombstone", age=0, unknown=1),
        group("day=1", 2000, age=1),
        group("day=2", 3, age=None),
        group("day=3", 4, age=365),
        protected=kept,
        first_readable_version=2,
    )
    result = vacuum(found)
    assert result.stderr == ""
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "VACUUM would delete 2,008 files of 2 MiB and 1 unknown (retention 168 hours).",
        " folder  age            reason             files                 size",
        " .       0 to 1 days    expired tombstone      1  1 KiB and 1 unknown",
        " day=1   1 to 7 days    orphan             2,000                2 MiB",
        " day=2   unknown        orphan                 3                3 KiB",
        " day=3   over 365 days  orphan                 4                4 KiB",
        "Kept: 5 files (young).",
        "Kept: 2 files (tombstone has not expired).",
        "Time travel would reach back to version 2; now the log reaches back to version 0.",
    ]


def test_folders_beyond_those_shown_are_summed(vacuum: Callable[..., Result]) -> None:
    lines = [vacuum(summary(*[group("f", 1)] * number)).stdout.splitlines() for number in (50, 52)]
    assert [len(each) for each in lines] == [53, 54]
    assert lines[0][-2].split() == ["f", "7", "to", "30", "days", "orphan", "1", "1", "KiB"]
    assert lines[1][-2].split() == ["and", "2", "more", "2", "2", "KiB"]
    assert lines[1][-1] == "Time travel would lose no version."


def test_report_as_json_has_versions_and_groups(vacuum: Callable[..., Result], tmp_path: Path) -> None:
    found = summary(group("a", 1, "expired tombstone"), protected=(group("b", 2, unknown=1),), first_readable_version=1)
    result = vacuum(found, "--json", "--retain", "2")
    assert result.stderr == (
        "warning: A retention of 2 hours is shorter than that of the table, 168 hours: VACUUM could delete files that "
        "running queries and writers need.\n"
    )
    of_all = {"filesWithoutSize": 0, "ageDays": 7}
    assert json.loads(result.stdout) == {
        "path": str(tmp_path / "t"),
        "version": 2,
        "retentionMs": 7_200_000,
        "files": 1,
        "bytes": 1024,
        "earliestVersion": 0,
        "firstReadableVersion": 1,
        "deleted": [{**of_all, "folder": "a", "reason": "expired tombstone", "files": 1, "bytes": 1024}],
        "protected": [{**of_all, "folder": "b", "reason": "orphan", "files": 2, "bytes": 2048, "filesWithoutSize": 1}],
    }
    assert vacuum(found, "--retain", "168").stderr == ""


@pytest.fixture
def session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Commands use the session of the tests."""
    monkeypatch.setattr("deltasnap_assets.spark.session.run_session.RunSession._start", lambda self, reason: spark)
    yield spark
    DeltaLog.clear_cache()


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
    assert (report["version"], report["earliestVersion"], report["firstReadableVersion"]) == (3, 0, 2)
    assert report["files"] == 2
    assert {(group["folder"], group["reason"], group["files"], group["ageDays"]) for group in report["deleted"]} == {
        ("day=2026-01-01", "expired tombstone", 1, 0),
        ("day=2026-01-02", "orphan", 1, 0),
    }
    assert report["protected"] == []

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
def test_retention_of_the_table_keeps_young_files(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    path = tmp_path / "events"
    write(path, "2026-01-01", [1], "append")
    write(path, "2026-01-01", [2], "overwrite")
    result = run("vacuum", path, "--dry-run")
    assert result.stdout == (
        "VACUUM would delete nothing (retention 168 hours).\nKept: 1 file (tombstone has not expired).\n"
    )
    assert result.stderr == ""
    short = run("vacuum", path, "--dry-run", "--retain", 0)
    assert "VACUUM would delete 1 file of" in short.stdout
    assert "Time travel would reach back to version 1; now the log reaches back to version 0." in short.stdout
    assert short.stderr.startswith("warning: A retention of 0 hours is shorter than that of the table, 168 hours")


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_missing_commit_before_the_checkpoint_is_reported(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "events"
    for number in range(3):
        write(path, "2026-01-01", [number], "append")
    deltalake.DeltaTable(path).create_checkpoint()
    (path / "_delta_log" / commit_file(1)).unlink()
    result = run("vacuum", path, "--dry-run")
    assert result.exit_code == 0
    assert result.stderr.startswith("error: The commit of version 1 is missing in the log of ")


def test_faults_are_reported_without_reading_a_commit_again(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [], 4: []})
    store = CountingLogStore(FsspecLogStore())
    condition = _condition(TableLog(store, f"{to_url(tmp_path)}/_delta_log"))
    assert [fault.kind for fault in condition.faults] == [FaultKind.MISSING_COMMIT, FaultKind.EMPTY_COMMIT]
    assert not [path for path in (*store.reads, *store.opens) if path.endswith(".json")]
