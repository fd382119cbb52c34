"""The output of commands that read with Spark. What Spark would return is given."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import typer
from rich.console import Console
from typer.testing import Result

from deltasnap_assets.command.views import changes_view, scan_view, vacuum_view
from deltasnap_assets.command.views.condition_view import FaultyTableError
from deltasnap_assets.command.views.scan_view import ScanRequest
from deltasnap_assets.command.views.vacuum_view import VacuumReport, _print, show_vacuum
from deltasnap_assets.command.views.version_table import files_changed, operation_text, version_table
from deltasnap_core import CommitInfo, Metadata, Protocol, ScanReport, VacuumSummary
from deltasnap_core.errors import PredicateError
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.support import RowChangeOptions, VacuumGroup, VersionChanges
from tests.assets.command.commands.driver_commands_builders import run
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import add, metadata, protocol, write_log

EXPIRED, KEPT = "expired tombstone", "tombstone has not expired"


def group(**values: Any) -> VacuumGroup:
    defaults = {"folder": "", "reason": EXPIRED, "age_days": 7, "num_files": 1, "size_in_bytes": 1024}
    return VacuumGroup(**{**defaults, "num_without_size": 0, **values})


def report(*deleted: VacuumGroup, protected: tuple[VacuumGroup, ...] = (), first: int | None = 3) -> VacuumReport:
    summary = VacuumSummary(retention_ms=5_400_000, deleted=deleted, protected=protected, first_readable_version=first)
    return VacuumReport(path="t", version=4, loadable=[1, 2, 3, 4], table_retention_ms=7_200_000, summary=summary)


def printed(value: VacuumReport) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    _print(console, value)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


GROUPS = (
    group(folder="day=1", num_files=1_200, size_in_bytes=3 << 20, num_without_size=2, age_days=0),
    group(reason="orphan", age_days=None, num_files=3, size_in_bytes=0, num_without_size=3),
)
PROTECTED = (
    group(reason=KEPT, num_files=1),
    group(reason="live file", num_files=5),
    group(folder="x", reason=KEPT, num_files=2_000),
)


def test_vacuum_lists_groups_of_files_what_is_kept_and_where_time_travel_ends() -> None:
    assert printed(report(*GROUPS, protected=PROTECTED)) == [
        "VACUUM would delete 1,203 files of 3 MiB and 5 unknown (retention 1.5 hours).",
        " folder  age          reason             files                 size",
        " day=1   0 to 1 days  expired tombstone  1,200  3 MiB and 2 unknown",
        " .       unknown      orphan                 3    0 B and 3 unknown",
        "Kept: 2,001 files (tombstone has not expired).",
        "Kept: 5 files (live file).",
        "Time travel would reach back to version 3; now the log reaches back to version 1.",
    ]


def test_vacuum_that_takes_nothing_from_versions_is_described_as_such() -> None:
    assert printed(report(group(reason="orphan")))[-1] == "Time travel would lose no version."
    assert printed(report()) == ["VACUUM would delete nothing (retention 1.5 hours)."]
    assert printed(report(group()))[0].startswith("VACUUM would delete 1 file of 1 KiB (")


def test_vacuum_shows_fifty_groups_and_the_sum_of_the_others() -> None:
    lines = printed(report(*(group(folder=f"f{number}", num_files=number) for number in range(52))))
    rows = [line.split() for line in lines[2:-1]]
    assert [row[0] for row in rows] == [*(f"f{number}" for number in range(50)), "and"]
    assert rows[-1] == ["and", "2", "more", "101", "2", "KiB"]
    assert len(printed(report(*[group()] * 50))) == 53


def test_vacuum_as_json_has_every_number() -> None:
    found = report(GROUPS[0], protected=PROTECTED[:1])
    assert found.to_json() == {
        "path": "t",
        "version": 4,
        "retention_ms": 5_400_000,
        "files": 1200,
        "bytes": 3 << 20,
        "earliest_version": 1,
        "first_readable_version": 3,
    }
    expired = {"folder": "day=1", "reason": EXPIRED, "age_days": 0, "files": 1200, "bytes": 3 << 20}
    kept = {"folder": "", "reason": KEPT, "age_days": 7, "files": 1, "bytes": 1024}
    assert found.rows() == [
        {"is_deleted": True, **expired, "files_without_size": 2},
        {"is_deleted": False, **kept, "files_without_size": 0},
    ]


class Listed:
    """A log whose versions have a vacuum summary."""

    def __init__(self, retention_ms: int, version: int) -> None:
        self.retention_ms, self.version = retention_ms, version
        properties = {"delta.deletedFileRetentionDuration": "interval 5 days"}
        self.metadata = Metadata(id="t", schema_string=None, partition_columns=(), configuration=properties)

    def get_snapshot_at(self, version: int) -> Listed:
        assert version == self.version
        return self

    @property
    def tables(self) -> Listed:
        return self

    def vacuum_summary(self, retention_ms: int | None) -> VacuumSummary:
        assert retention_ms == self.retention_ms
        return VacuumSummary(retention_ms=self.retention_ms, deleted=(), protected=(), first_readable_version=None)


@pytest.mark.parametrize(("hours", "is_short"), [(119, True), (120, False)])
def test_retention_shorter_than_that_of_the_table_is_a_warning(
    hours: int, is_short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    given = Listed(hours * 3_600_000, 1)
    monkeypatch.setattr(vacuum_view, "delta_log_of", lambda path, options: given)
    monkeypatch.setattr(vacuum_view, "spark_aside", nullcontext)
    show_vacuum(str(tmp_path), {}, retention_ms=given.retention_ms, form="json")
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["path"], found["version"], found["earliest_version"]) == (str(tmp_path), 1, 0)
    show_vacuum(str(tmp_path), {}, retention_ms=given.retention_ms, form="csv")
    assert capsys.readouterr().out == ""  # no groups
    warning = f"warning: A retention of {hours} hours is shorter than that of the table, 120 hours: VACUUM could delete"
    assert shown.err.startswith(warning) is is_short
    assert bool(shown.err) is is_short
    show_vacuum(str(tmp_path), {}, retention_ms=given.retention_ms, form="table")
    assert capsys.readouterr().out == f"VACUUM would delete nothing (retention {hours} hours).\n"


def test_faults_are_printed_and_explain_why_a_table_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    (log / "_last_checkpoint").write_text("{")
    given = Listed(120 * 3_600_000, 1)
    monkeypatch.setattr(vacuum_view, "delta_log_of", lambda path, options: given)
    monkeypatch.setattr(vacuum_view, "spark_aside", nullcontext)
    show_vacuum(str(tmp_path), {}, retention_ms=given.retention_ms, form="table")
    assert "_last_checkpoint" in capsys.readouterr().err
    (log / commit_file(0)).unlink()
    with pytest.raises(FaultyTableError):
        show_vacuum(str(tmp_path), {}, retention_ms=None, form="table")


def test_scan_report_counts_skipped_files_and_names_conditions() -> None:
    found = ScanReport(
        files=2_000,
        bytes_in_files=4 << 20,
        files_after_partitions=1_500,
        bytes_after_partitions=3 << 20,
        files_after_statistics=300,
        bytes_after_statistics=2 << 20,
        used=("a = 1",),
        unused=("f(b)",),
    )
    assert list(scan_view._report_lines(found, 7)) == [
        "Version 7: 300 of 2,000 files may contain the rows, 2 MiB of 4 MiB.",
        "Skipped by partition values: 500 files. Skipped by statistics: 1,200 files.",
        "Selects files: a = 1",
        "Selects rows only: f(b)",
    ]


class Rejecting:
    """A log or snapshot that rejects every request. It records their arguments."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked: list[Any] = []

    def row_changes(self, *arguments: Any, **named: Any) -> Any:
        self.asked.append((*arguments, named))
        raise self.error

    scan = row_changes


class Answering:
    """A log, snapshot, scan and frame whose rows are given. It records what is asked."""

    def __init__(self, rows: pa.Table, report: ScanReport | None = None) -> None:
        self.rows, self.report, self.asked = rows, report, list[Any]()
        self.columns, self.schema = rows.column_names, SimpleNamespace(fields=[])

    def _asked(self, *given: Any) -> Answering:
        self.asked.append(given)
        return self

    def get_snapshot_at(self, version: int) -> Answering:
        return self._asked("version", version)

    def scan(self, where: str | None, columns: Any) -> Answering:
        return self._asked("scan", where, columns)

    def row_changes(self, first: int, last: int, **options: Any) -> Answering:
        return self._asked("changes", first, last, options)

    def orderBy(self, name: str) -> Answering:  # noqa: N802
        self.rows = self.rows.sort_by(name)
        return self

    def limit(self, count: int) -> Answering:
        self.rows = self.take(count)
        return self

    def take(self, count: int) -> pa.Table:
        self.asked.append(("at most", count))
        return self.rows.slice(0, count)

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.rows

    to_arrow = toArrow


@pytest.fixture
def two_versions(tmp_path: Path) -> str:
    write_log(tmp_path / "t", {0: [protocol(), metadata()], 1: [add("a")]})
    return str(tmp_path / "t")


def answered(monkeypatch: pytest.MonkeyPatch, given: Answering, *arguments: object) -> Result:
    """Return the result of a command on that log."""
    for view in (changes_view, scan_view):
        monkeypatch.setattr(view, "delta_log_of", lambda path, options: given)
    return run(*arguments)


CHANGED = pa.table({"id": [7, 8, 9], "_commit_version": [1, 0, 2]})
NO_OPTIONS = {"key": None, "net": False, "where": None, "columns": None}


def test_changes_are_in_order_of_versions_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, two_versions: str) -> None:
    found = answered(monkeypatch, log := Answering(CHANGED), "changes", two_versions, 0, 1, "--format", "csv", "-n", 2)
    assert found.stdout == "id,_commit_version\n8,0\n7,1\n"
    assert log.asked == [("changes", 0, 1, NO_OPTIONS), ("at most", 3)]
    arguments = ("--key", "id,x", "--net", "--where", "id > 1", "--columns", "id")
    answered(monkeypatch, log := Answering(CHANGED), "changes", two_versions, 1, 1, *arguments)
    options = {"key": ("id", "x"), "net": True, "where": "id > 1", "columns": ("id",)}
    assert log.asked[0] == ("changes", 1, 1, options)


@pytest.mark.parametrize(
    ("arguments", "version"),
    [((), 1), (("--version", 0), 0), (("--timestamp", "2023-11-14T22:13:20.500Z"), 0)],
    ids=["latest", "version", "timestamp"],
)
def test_scan_reads_the_requested_version(
    arguments: tuple[object, ...], version: int, monkeypatch: pytest.MonkeyPatch, two_versions: str
) -> None:
    log = Answering(pa.table({"id": [5]}))
    found = answered(monkeypatch, log, "scan", two_versions, *arguments, "--format", "json", "-n", 0)
    assert (found.exit_code, found.stdout, found.stderr) == (0, '{"id": 5}\n', "")
    assert log.asked == [("version", version), ("scan", None, None)]


def test_scan_with_a_limit_explains_its_files_on_stderr(monkeypatch: pytest.MonkeyPatch, two_versions: str) -> None:
    counts = {"files": 1, "files_after_partitions": 1, "files_after_statistics": 1}
    sizes = {"bytes_in_files": 5, "bytes_after_partitions": 5, "bytes_after_statistics": 5}
    report = ScanReport(**counts, **sizes, used=(), unused=("x > 1",))
    log = Answering(pa.table({"id": [5, 6]}), report)
    arguments = ("--where", "x > 1", "--columns", "id", "--explain", "--format", "csv", "-n", 1)
    found = answered(monkeypatch, log, "scan", two_versions, *arguments)
    assert found.stdout == "id\n5\n"
    assert found.stderr.splitlines() == [
        "Version 1: 1 of 1 files may contain the rows, 5 B of 5 B.",
        "Selects rows only: x > 1",
    ]
    assert log.asked == [("version", 1), ("scan", "x > 1", ("id",)), ("at most", 2)]


INVALID = (
    (PredicateError(predicate="x =", position=2, reason="missing"), "--where", "missing (at character 3)"),
    (PredicateError(predicate="x =", position=None, reason="missing"), "--where", "missing"),
    (ValueError("no column x"), "columns", "no column x"),
)


@pytest.mark.parametrize(("error", "option", "text"), INVALID)
def test_invalid_condition_or_column_is_reported_as_wrong_usage(error: Exception, option: str, text: str) -> None:
    log: Any = Rejecting(error)
    named: RowChangeOptions = {"key": ("k",), "net": True, "where": "w", "columns": ("c",)}
    with pytest.raises(typer.BadParameter) as raised:
        changes_view._changes(log, (1, 2), named)
    assert (raised.value.message, option in str(raised.value.param_hint)) == (text, True)
    assert log.asked == [(1, 2, named)]
    with pytest.raises(typer.BadParameter) as raised:
        scan_view._planned(log, ScanRequest(where="w", columns=("c",)))
    assert (raised.value.message, option in str(raised.value.param_hint)) == (text, True)
    assert log.asked[1:] == [("w", ("c",), {})]


class Stored:
    """Three stored versions of a table, 4, 5 and 7."""

    def __init__(self) -> None:
        tables = {4: {"x": "1"}, 5: {"x": "2"}, 7: {"x": "2"}}
        self.states = {
            version: state(
                num_of_files=1000 * version,
                size_in_bytes=version << 20,
                metadata=Metadata(id="t", schema_string=None, partition_columns=(), configuration=properties),
                protocol=Protocol(min_reader_version=1, min_writer_version=version),
            )
            for version, properties in tables.items()
        }

    def versions(self, table: str) -> list[int]:
        assert table == "events"
        return list(self.states)

    def computed_state(self, table: str, version: int) -> SnapshotState:
        assert table == "events"
        return self.states[version]

    def manifest(self, table: str, version: int) -> Any:
        assert table == "events"
        changes = VersionChanges(num_added_files=version, num_removed_files=0, added_bytes=0, removed_bytes=0)
        return SimpleNamespace(version_changes=changes if version != 4 else None)


def test_stored_versions_are_shown_with_the_changes_since_the_version_before() -> None:
    store: Any = Stored()
    console = Console(file=io.StringIO(), width=120)
    console.print(version_table(store, "events", [5, 7], {5: "MERGE"}))
    console.print(version_table(store, "events", [4], {}))
    console.print(version_table(store, "events", [], {}))
    assert isinstance(console.file, io.StringIO)
    rows = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert [row for row in rows if row.strip(" \u2500")] == [
        "events: stored versions",
        " version  operation  files   size  tombstones  what changed",
        "       5  MERGE      5,000  5 MiB           2  +5 files; property x = 2, was 1; writer version 5, was 4",
        "       7  unknown    7,000  7 MiB           2  +7 files; writer version 7, was 5",
        "events: stored versions",
        " version  operation  files   size  tombstones  what changed",
        "       4  unknown    4,000  4 MiB           2",
        "events: stored versions",
        " version  operation  files  size  tombstones  what changed",
    ]


FILES = {"none": (0, 0, []), "one": (1, 0, ["+1 file"]), "gone": (0, 1, ["-1 file"]), "both": (6, 22, ["+6 -22 files"])}


@pytest.mark.parametrize("case", FILES)
def test_added_and_removed_files_are_counted(case: str) -> None:
    added, removed, expected = FILES[case]
    changes = VersionChanges(num_added_files=added, num_removed_files=removed, added_bytes=0, removed_bytes=0)
    assert list(files_changed(changes)) == expected
    assert list(files_changed(None)) == []


def test_operation_includes_its_mode() -> None:
    assert operation_text(CommitInfo(operation="WRITE", operation_parameters={"mode": "Append"})) == "WRITE (append)"
    assert operation_text(CommitInfo(operation="MERGE", operation_parameters={"mode": "x"})) == "MERGE"
    assert operation_text(CommitInfo()) == "unknown"
