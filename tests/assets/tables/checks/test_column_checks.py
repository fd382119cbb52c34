"""The checks of columns and of daily rows: tables that jobs have really spoiled, as an operator checks them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_assets.checks.registry import COLUMN_CHECKS, ROWS_EXPECTED
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.tables import run_snapshots
from deltasnap_core.scan.tables.column_totals import ColumnTotals
from deltasnap_core.scan.tables.metadata_tables import MetadataTables
from deltasnap_core.scan.version import Version
from tests.assets.command.commands.driver_commands_builders import run
from tests.assets.tables.assets_builders import App, evaluations
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import local_instance

DAY = timedelta(days=1)
NOW = datetime.now(UTC)
AMOUNT = "max_null_share={amount: 0.01}"
NAMES = ",".join(check.name for check in (ROWS_EXPECTED, *COLUMN_CHECKS))


def orders(day: date, rows: int, columns: Mapping[str, Any] | None = None) -> pa.Table:
    values: dict[str, Any] = {"id": range(rows), "amount": [1.5] * rows, "day": [day] * rows}
    values |= {"who": [{"name": "n"}] * rows, **(columns or {})}
    types = {"id": pa.int64(), "amount": pa.float64(), "day": pa.date32(), "who": pa.struct([("name", pa.string())])}
    return pa.table({name: pa.array(values[name], kind) for name, kind in types.items()})


def write_day(table: Path, days_ago: int, rows: int, **columns: Any) -> None:
    """Append rows as a job did some days ago."""
    write_deltalake(table, orders((NOW - days_ago * DAY).date(), rows, columns), mode="append")
    set_back(table, days_ago)


def set_back(table: Path, days_ago: int) -> None:
    """Date the last commit some days ago."""
    commit = table / "_delta_log" / f"{DeltaTable(table).version():020d}.json"
    seconds = (NOW - days_ago * DAY).timestamp() - 3600
    commit.write_text(
        re.sub(r'"modificationTime":\d+', f'"modificationTime":{int(seconds * 1000)}', commit.read_text())
    )
    os.utime(commit, (seconds, seconds))


def usual(day: int) -> int:
    """Return the rows of a day: every seventh has few, as a Sunday has."""
    return 10 if day % 7 == 0 else 100


def write_days(table: Path, first: int = 30, last: int = 0, step: int = 1) -> None:
    for day in range(first, last, -step):
        write_day(table, day, usual(day))


def results(table: Path, *arguments: str, select: str = NAMES) -> dict[str, dict[str, Any]]:
    """Return the results of `deltasnap check` by check."""
    found = json.loads(run("check", str(table), "--select", select, "--format", "json", *arguments).stdout)
    return {row["check"]: row for row in found["rows"]}


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a commit on each of the last 30 days, but not today."""
    table = tmp_path_factory.mktemp("lake") / "orders"
    write_days(table)
    return table


@pytest.fixture
def table(month: Path, tmp_path: Path) -> Path:
    """A copy of that table."""
    copy = tmp_path / "orders"
    for file in filter(Path.is_file, month.rglob("*")):
        to = copy / file.relative_to(month)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.read_bytes())
        os.utime(to, (file.stat().st_mtime, file.stat().st_mtime))
    return copy


def test_sound_table_passes(table: Path) -> None:
    write_day(table, 0, usual(0))
    found = results(table, "--set", AMOUNT, "--set", "column_ranges={amount: [0, 2], day: [2020-01-01, null]}")
    assert {name: row["status"] for name, row in found.items()} == dict.fromkeys(NAMES.split(","), "passed")
    assert found["rows_expected"]["description"] == (
        "Commits added 10 rows in the last 24 hours, 5 to 20 expected: the median of 4 of the same hours of the weeks "
        "before is 10."
    )


@pytest.mark.parametrize(("rows", "status"), [(None, "failed"), (4, "failed"), (5, "passed"), (21, "failed")])
def test_day_with_too_few_or_too_many_rows_for_its_weekday_fails(rows: int | None, status: str, table: Path) -> None:
    if rows:
        write_day(table, 0, rows)
    found = results(table)["rows_expected"]
    assert (found["status"], found["numbers"]) == (status, {"rows_added": rows or 0, "rows_usual": 10})


def test_optimize_adds_no_rows(table: Path) -> None:
    DeltaTable(table).optimize.compact()
    set_back(table, 0)
    assert results(table)["rows_expected"]["numbers"]["rows_added"] == 0


def test_young_table_is_compared_with_the_days_before_once_there_are_three(tmp_path: Path) -> None:
    for days, status in ((4, "failed"), (3, "skipped")):
        table = tmp_path / f"{days}"
        for day in range(days, -1, -1):
            write_day(table, day, 100 if day else 30)
        found = results(table)["rows_expected"]
        assert found["status"] == status, found
    assert found["description"] == "not evaluated: the log has commits of 3 days, too few to know what is usual."


def test_column_that_becomes_null_by_a_bad_job_fails_although_most_rows_have_values(table: Path) -> None:
    write_day(table, 0, 10, amount=[None] * 10)
    found = results(table, "--set", AMOUNT)["null_share"]
    assert (found["status"], found["numbers"]["columns_failed"]) == ("failed", 1)
    expected = "100% of the values of amount written in the last 24 hours are null, at most 1% expected."
    assert found["description"].endswith(expected)
    assert results(table, "--set", "max_null_share={id: 0}")["null_share"]["status"] == "passed"


def test_share_of_nulls_in_all_rows_counts(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_day(table, 9, 4, amount=[1.0, None, None, 2.0])
    write_day(table, 0, 4)
    found = results(table, "--set", 'max_null_share={"*": 0.2, "who.name": 0.1}')["null_share"]
    assert found["description"] == ("At version 1, 25% of the values of amount are null, at most 20% expected.")
    assert results(table, "--set", 'max_null_share={"*": 0.25}')["null_share"]["status"] == "passed"


def test_date_in_the_future_fails_unless_its_column_is_not_among_the_dated_ones(table: Path) -> None:
    write_day(table, 0, 2, day=[NOW.date(), date(2090, 1, 1)])
    found = results(table)["max_not_in_future"]
    assert (found["status"], "the greatest value of day is in the future: 2090-01-01" in found["description"]) == (
        "failed",
        True,
    )
    assert results(table, "--set", "dated_columns=[]")["max_not_in_future"]["status"] == "skipped"
    assert results(table, "--set", "max_hours_in_future=999999")["max_not_in_future"]["status"] == "passed"
    wrong = results(table, "--set", "dated_columns=[amount]")["max_not_in_future"]
    assert wrong["description"] == "not evaluated: the log does not suffice for amount (it is of the type double)."


@pytest.mark.parametrize(
    ("ranges", "status", "text"),
    [
        ("{amount: [0, 1.4]}", "failed", "amount has the value 1.5, outside of its range"),
        ("{amount: [2, null]}", "failed", "amount has the value 1.5, outside of its range"),
        ("{amount: [1.5, 1.5], id: [0, 99]}", "passed", "2 columns have only values within the ranges"),
        ("{day: [2020-01-01, '2100-01-01']}", "passed", "1 column has only values"),
        ("{day: [2100-01-01, null]}", "failed", "day has the value"),
        ("{who.name: [a, m]}", "failed", "who.name has the value n, outside of its range"),
        ("{day: [soon, null]}", "skipped", "a limit is not of its type, date"),
        ("{day: ['0001-01-01T00:00:00+02:00', null]}", "skipped", "a limit is not of its type, date"),
        ("{amount: [.nan, null]}", "skipped", "a limit is not of its type, double"),
        ("{id: [null, sNaN]}", "skipped", "a limit is not of its type, long"),
        ("{who.name: [NaN, null]}", "passed", "1 column has only values"),
        ("{amount: [-.inf, .inf]}", "passed", "1 column has only values"),
        ("{price: [0, 1]}", "skipped", "price (the table has no such column)"),
        ("{}", "skipped", "`column_ranges` names no column"),
    ],
)
def test_values_are_compared_with_the_ranges(ranges: str, status: str, text: str, month: Path) -> None:
    found = results(month, "--set", f"column_ranges={ranges}", select="columns_within")["columns_within"]
    assert (found["status"], text in found["description"]) == (status, True), found["description"]


def test_column_whose_statistics_do_not_suffice_is_not_judged(tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, orders(NOW.date(), 4), configuration={"delta.dataSkippingNumIndexedCols": "1"})
    found = results(table, "--set", AMOUNT, "--set", "column_ranges={amount: [0, 1]}")
    assert {name: row["status"] for name, row in found.items()} == dict.fromkeys(NAMES.split(","), "skipped")
    assert found["null_share"]["description"] == (
        "not evaluated: the log does not suffice for amount (1 of 1 files do not state its nulls)."
    )
    others = results(table)["null_share"]
    assert (others["status"], others["numbers"]) == (
        "passed",
        {"columns_checked": 1, "columns_failed": 0, "columns_not_checked": 3},
    )


@pytest.mark.parametrize("limit", ["max_null_share={amount: 2}", "max_null_share={amount: yes}", "max_null_share=1",
                                   "column_ranges={amount: 1}", "dated_columns=day", "max_rows_ratio=0.5"])  # fmt: skip
def test_wrong_limit_is_an_error_of_the_command_line(limit: str, month: Path) -> None:
    assert run("check", str(month), "--set", limit).exit_code == 2


def test_checks_are_off_by_default(month: Path) -> None:
    found = json.loads(run("check", str(month), "--format", "json").stdout)
    assert {row["check"] for row in found["rows"]}.isdisjoint(NAMES.split(","))


@pytest.fixture
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)


@pytest.mark.usefixtures("_without_spark")
def test_run_plots_the_columns_on_the_page_and_records_the_checks(tmp_path: Path) -> None:
    checks = {"null_share": {}, "rows_expected": {"severity": "error"}, "max_null_share": {"amount": 0.1}}
    app = App(tmp_path, checks=checks)
    write_days(app.path, first=5)
    write_day(app.path, 0, 50, amount=[None] * 50)
    app.refresh()
    newest = DeltaTable(app.path).version()
    page = app.metadata("computed_state", newest)
    assert (page["null_share_of_amount"], page["min_of_id"], page["max_of_id"]) == (50 / 550, 0, 99)
    assert (page["rows_added_in_24_hours"], "null_share_of_day" in page) == (50, True)
    assert "| amount | 9.09% | 1.5 | 1.5 |\n" in page["columns"]
    assert "min_of_id" not in app.metadata("computed_state", newest - 1)
    found = evaluations(app, None)
    assert not found["null_share"].passed
    assert (found["rows_expected"].passed, found["rows_expected"].severity.value) == (True, "ERROR")
    assert {"max_not_in_future", "columns_within"}.isdisjoint(found)


@pytest.mark.usefixtures("_without_spark")
def test_rows_of_the_last_day_are_those_before_the_version_also_in_a_late_run(tmp_path: Path) -> None:
    app = App(tmp_path, checks={"rows_expected": {}})
    for ago, rows in ((5, 30), (3, 20)):
        write_day(app.path, ago, rows)
        app.refresh()
    added = [app.metadata("computed_state", version)["rows_added_in_24_hours"] for version in (0, 1)]
    assert added == [30, 20]


@pytest.mark.usefixtures("_without_spark")
def test_run_reads_only_the_files_that_changed_since_the_recorded_totals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, whole = [], MetadataTables._totals

    def counted(tables: MetadataTables, version: Version, since_ms: int | None) -> ColumnTotals:
        passes.append(version.number)
        return whole(tables, version, since_ms)

    monkeypatch.setattr(MetadataTables, "_totals", counted)
    monkeypatch.setattr(run_snapshots, "_FEW_ROWS", 0)
    app = App(tmp_path, checks={"null_share": {}})
    write_days(app.path, first=3)
    app.refresh()
    write_day(app.path, 0, 20, amount=[None] * 20)
    DeltaTable(app.path).optimize.compact()
    app.refresh()
    page = app.metadata("computed_state", 4)
    assert (passes, page["null_share_of_amount"], page["max_of_id"]) == ([2], 20 / 320, 99)
    shutil.rmtree(app.path)
    write_day(app.path, 0, 7)
    app.refresh()
    assert (passes, app.metadata("computed_state", 0)["max_of_id"]) == ([2, 0], 6)


@pytest.mark.usefixtures("_without_spark")
def test_day_without_a_commit_is_found_by_a_schedule(tmp_path: Path) -> None:
    app = App(tmp_path, checks={"rows_expected": {}})
    write_days(app.path, first=5)
    write_day(app.path, 0, 100)
    with local_instance(tmp_path / "instance") as instance:
        app.instance = instance
        app.refresh()
        assert evaluations(app, None)["rows_expected"].passed
        for commit in (app.path / "_delta_log").glob("*.json"):
            os.utime(commit, (commit.stat().st_mtime - DAY.total_seconds(),) * 2)
        with dg.build_schedule_context(instance=instance) as context:
            refresh_schedule(app.settings, app.table, "@daily")(context)
        found = evaluations(app, None)["rows_expected"]
    assert "Commits added 0 rows in the last 24 hours" in str(found.description)
    poll = store_of(app.settings).polls.read("events")
    assert poll is not None
    assert "rows_expected" in {problem.check for problem in poll.problems}


@pytest.mark.usefixtures("_without_spark")
def test_page_of_a_wide_table_has_a_bounded_number_of_plots(tmp_path: Path) -> None:
    app = App(tmp_path, checks={"columns_within": {}, "column_ranges": {"c199": [0, 9]}})
    write_deltalake(
        app.path,
        pa.table({f"c{number}": [1, 2] for number in range(200)}),
        configuration={"delta.dataSkippingNumIndexedCols": "200"},
    )
    app.refresh()
    page = app.metadata("computed_state", 0)
    assert (page["max_of_c199"], page["max_of_c0"], "max_of_c150" in page) == (2, 1 + 1, False)
    assert len([name for name in page if "_of_c" in name]) == 60
    assert page["columns"].startswith("| column |")


@pytest.mark.usefixtures("_without_spark")
def test_run_without_these_checks_reads_no_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("deltasnap_core.scan.tables.metadata_tables.ColumnTotals", fail)
    monkeypatch.setattr("deltasnap_core.log.commits.daily_rows.read_commits", fail)
    app = App(tmp_path)
    write_days(app.path, first=2)
    app.refresh()
    assert "columns" not in app.metadata("computed_state", 1)
