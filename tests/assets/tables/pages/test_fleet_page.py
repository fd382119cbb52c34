"""The asset `fleet`: its page, its totals, its history, and facts about a table as text."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from benchmarks.stored_fleet import FILE_BYTES, store_table
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TABLE_TAG, TableSettings
from deltasnap_assets.tables.assets.fleet_asset import FLEET_JOB, fleet_asset, fleet_job, fleet_sensor
from deltasnap_assets.tables.fleet_totals import FleetOrder, ordered_rows, totals_of_fleet
from deltasnap_assets.tables.pages.fleet_page import fleet_page
from deltasnap_assets.tables.pages.fleet_texts import (
    age_text,
    count_text,
    growth_text,
    ratio_text,
    size_text,
    version_text,
)
from deltasnap_core import Problem
from deltasnap_core.support import LastPoll, system_clock
from tests.assets.jobs import ticked
from tests.assets.tables.pages.pictures_builders import texts

DAY = 24 * 3_600_000
ERROR = Problem.of_check(check="log", severity="error", text="Version 3 is lost | <b>*now*</b>.", advice="Restore it.")
WARNING = Problem.of_check(check="small_files", severity="warning", text="Many small files.", advice="Run `OPTIMIZE`.")


class Fleet:
    """Three stored tables: `orders` is broken, `events` healthy, and `clicks` has no poll."""

    def __init__(self, folder: Path) -> None:
        self.now = system_clock()
        tables = tuple(TableSettings(name=name, path=f"/lake/{name}") for name in ("clicks", "events", "orders"))
        self.settings = Settings(storage=str(folder / "store"), tables=tables)
        store = store_of(self.settings)
        for number, name in enumerate(("clicks", "events", "orders"), 1):
            store_table(
                folder / "store", name, [(self.now - day * DAY, number * (40 - day)) for day in range(39, -1, -1)]
            )
        poll = LastPoll(
            polled_at_ms=self.now, latest_version=41, last_commit_ms=self.now, checked_version=39, owners=("team:web",)
        )
        store.polls.write("events", poll)
        store.polls.write("orders", LastPoll(polled_at_ms=self.now, problems=(ERROR,)))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = store_of(self.settings).fleet(now_ms=self.now).to_pylist()
        return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The fleet, whose rows no test changes."""
    return Fleet(tmp_path_factory.mktemp("fleet"))


def warnings_of(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """The warnings in the log of a run."""
    return [entry.user_message for entry in instance.all_logs(run_id) if entry.level == logging.WARNING]


CLICKS = "deltasnap has not read the log of this table yet\\."
PAGE: dict[str, list[str]] = {
    "overview": ["3 tables: 1 broken, 1 unknown, 1 healthy. 24,000 rows in 240 files, 240 MiB; +42 MiB in 7 days."],
    "worst": [
        "| table | condition | reason |",
        "| - | - | - |",
        r"| [orders](/assets/orders/delta_log) | broken | Version 3 is lost \| \<b\>\*now\*\<\/b\>\. |",
        f"| [clicks](/assets/clicks/delta_log) | unknown | {CLICKS} |",
        "| [events](/assets/events/delta_log) | healthy |  |",
    ],
    "conditions": [
        "| table | condition | last commit | version |",
        "| - | - | - | - |",
        "| [orders](/assets/orders/delta_log) | broken | 0 seconds (0.0 x usual) | 39 |",
        "| [clicks](/assets/clicks/delta_log) | unknown | 0 seconds (0.0 x usual) | 39 |",
        "| [events](/assets/events/delta_log) | healthy | 0 seconds (0.0 x usual) | 41 (2 behind) |",
    ],
    "reasons": [
        r"- [orders](/assets/orders/delta_log) (broken): Version 3 is lost \| \<b\>\*now\*\<\/b\>\. Restore it\.",
        f"- [clicks](/assets/clicks/delta_log) (unknown): {CLICKS} Refresh the table\\, or start its sensor\\.",
    ],
    "contents": [
        "| table | rows | files | size | in 7 days | in 30 days |",
        "| - | - | - | - | - | - |",
        "| orders | 12,000 | 120 | 120 MiB | +21 MiB | +90 MiB |",
        "| clicks | 4,000 | 40 | 40 MiB | +7 MiB | +30 MiB |",
        "| events | 8,000 | 80 | 80 MiB | +14 MiB | +60 MiB |",
    ],
    "maintenance": [
        "| table | small files | VACUUM frees | time travel | checkpoint lag | features | owner |",
        "| - | - | - | - | - | - | - |",
        "| orders | 100% |  |  | 9 |  |  |",
        "| clicks | 100% |  |  | 9 |  |  |",
        "| events | 100% | 5 B | 1 KiB | 9 | a\\, b | team\\:web |",
    ],
}


def test_page_has_one_row_per_table_the_worst_first(fleet: Fleet) -> None:
    more = {"vacuum_bytes": 5, "time_travel_bytes": 1024, "features": ["a", "b"]}
    page = fleet_page([{**row, **more} if row["table"] == "events" else row for row in fleet.rows])
    assert (page["vacuum_bytes"].value, page["time_travel_bytes"].value) == (5, 1024)
    assert str(page["overview"].value).endswith(" in 7 days. VACUUM would free at least 5 B.")
    shown = {name: str(page[name].value).splitlines() for name in PAGE if name != "overview"}
    assert {**shown, "overview": str(fleet_page(fleet.rows)["overview"].value).splitlines()} == PAGE
    assert {type(page[name]) for name in (*PAGE, "largest", "fastest_growing")} == {dg.MarkdownMetadataValue}


@pytest.mark.parametrize(("number", "last"), [(3, "| t2 |"), (4, "and 1 more: `SnapshotStore.fleet()` returns all")])
def test_tables_not_shown_are_counted(number: int, last: str, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltasnap_assets.tables.pages.fleet_page.MAX_ROWS", 3)
    page = fleet_page([{**fleet.rows[0], "table": f"t{each}"} for each in range(number)])
    assert str(page["contents"].value).splitlines()[-1].startswith(last)


def test_worst_tables_are_shown_without_a_click(fleet: Fleet) -> None:
    worst = str(fleet_page(fleet.rows)["worst"].value).splitlines()
    assert worst[0] == "| table | condition | reason |"
    assert [line.split("](")[0] for line in worst[2:]] == ["| [orders", "| [clicks", "| [events"]
    many = [{**row, "table": f"{row['table']}{number}"} for number in range(20) for row in fleet.rows]
    shown = str(fleet_page(many)["worst"].value)
    assert len(shown) < 1000
    assert 4 < len(shown.splitlines()) <= 12
    short = [{**row, "table": f"t{number}", "reason": ""} for number in range(20) for row in fleet.rows[:1]]
    assert len(str(fleet_page(short)["worst"].value).splitlines()) == 2 + 10


def test_reasons_of_the_worst_tables_have_only_the_end_of_long_paths(fleet: Fleet) -> None:
    path = "s3://lake/a_long_folder_name/orders/_delta_log"
    rows = [{**row, "reason": f"No Delta table at {path}: there is none."} for row in fleet.rows]
    page = fleet_page(rows)
    assert "No Delta table at …\\/orders\\/\\_delta\\_log\\: there is none\\. |" in str(page["worst"].value)
    assert "a\\_long\\_folder\\_name" in str(page["reasons"].value)


def test_reasons_of_the_worst_tables_are_shortened_only_if_there_are_many(fleet: Fleet) -> None:
    rows = [{**row, "reason": "why " * 40} for row in fleet.rows]
    few = str(fleet_page(rows[:3])["worst"].value)
    assert few.count("why") == 3 * 40
    many = str(fleet_page([{**row, "table": f"t{n}"} for n in range(6) for row in rows[:1]])["worst"].value)
    assert many.count("80 more characters") == 6


def test_totals_are_numbers(fleet: Fleet) -> None:
    page = fleet_page(fleet.rows)
    numbers = {name: entry.value for name, entry in page.items() if isinstance(entry, dg.IntMetadataValue)}
    assert numbers == {
        "tables": 3,
        "broken": 1,
        "unknown": 1,
        "warned": 0,
        "stale": 0,
        "healthy": 1,
        "num_records": 24_000,
        "num_files": 240,
        "size_in_bytes": 240 * FILE_BYTES,
        "growth_7d_bytes": 42 * FILE_BYTES,
        "growth_30d_bytes": 180 * FILE_BYTES,
    }


def test_page_has_bars_of_the_largest_and_of_the_fastest_growing(fleet: Fleet) -> None:
    page = fleet_page(fleet.rows)
    for name in ("largest", "fastest_growing"):
        picture = str(page[name].value)
        assert picture.startswith(f"![{name.replace('_', ' ')}](<data:image/svg+xml,")
        assert picture.index("orders") < picture.index("events") < picture.index("clicks")
    assert texts(str(page["largest"].value)) == ["orders", "120 MiB", "events", "80 MiB", "clicks", "40 MiB"]
    assert texts(str(page["fastest_growing"].value)) == ["orders", "21 MiB", "events", "14 MiB", "clicks", "7 MiB"]
    none = [{**row, "growth_7d_bytes": 0} for row in fleet.rows]
    assert "fastest_growing" not in fleet_page(none)


def test_page_of_tables_that_are_not_stored_has_no_bars(tmp_path: Path) -> None:
    settings = Settings(storage=str(tmp_path), tables=(TableSettings(name="events", path="/lake/events"),))
    page = fleet_page(store_of(settings).fleet(["events"]).to_pylist())
    assert {"largest", "fastest_growing"}.isdisjoint(page)
    assert str(page["overview"].value) == "1 table: 1 unknown. Unknown rows in unknown files, unknown bytes."


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("condition", ["orders", "clicks", "events"]),
        ("name", ["clicks", "events", "orders"]),
        ("size", ["orders", "events", "clicks"]),
        ("growth", ["orders", "events", "clicks"]),
    ],
)
def test_rows_have_the_requested_order(fleet: Fleet, order: FleetOrder, names: list[str]) -> None:
    assert [row["table"] for row in ordered_rows(fleet.rows, order)] == names


def test_totals_without_some_tables_are_lower_bounds_and_totals_beyond_64_bits_are_exact(fleet: Fleet) -> None:
    clicks, events, orders = sorted(fleet.rows, key=lambda row: str(row["table"]))
    rows = [{**clicks, "size_in_bytes": None, "num_records": None}, events, {**orders, "num_files": (1 << 63) - 1}]
    page = fleet_page([*rows, {**orders, "num_files": (1 << 63) - 1}])
    assert page["num_files"].value == (1 << 64) - 2 + 120
    assert "At least 32,000 rows in 18,446,744,073,709,551,734 files, at least 320 MiB;" in str(page["overview"].value)


def test_unknown_values_are_last_in_any_order_and_count_as_zero(fleet: Fleet) -> None:
    rows = [{**row, "growth_7d_bytes": None if row["table"] == "orders" else -5} for row in fleet.rows]
    assert [row["table"] for row in ordered_rows(rows, "growth")] == ["clicks", "events", "orders"]
    assert totals_of_fleet(rows).growth_7d_bytes == -10
    assert totals_of_fleet([]).growth_7d_bytes == 0
    grown = {"events": 1, "orders": None, "clicks": -9}
    by_growth = ordered_rows([{**row, "growth_7d_bytes": grown[row["table"]]} for row in fleet.rows], "growth")
    assert [row["table"] for row in by_growth] == ["events", "clicks", "orders"]
    ages = {"events": None, "orders": 1.5, "clicks": 3.0}
    by_age = ordered_rows([{**row, "age_ratio": ages[row["table"]]} for row in fleet.rows], "age")
    assert [row["table"] for row in by_age] == ["clicks", "orders", "events"]


def test_each_materialization_is_recorded_and_stored(fleet: Fleet) -> None:
    defs = dg.Definitions(assets=[fleet_asset(fleet.settings)], jobs=[fleet_job(fleet.settings)])
    instance = dg.DagsterInstance.ephemeral()
    for _ in range(2):
        assert defs.resolve_job_def(FLEET_JOB).execute_in_process(instance=instance).success
    (record,) = instance.fetch_materializations(dg.AssetKey(["fleet"]), limit=1).records
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["broken"].value == 1
    assert store_of(fleet.settings).fleet_history().num_rows == 6


def test_fleets_of_two_code_locations_have_their_own_pages(tmp_path: Path) -> None:
    instance, pages = dg.DagsterInstance.ephemeral(), dict[str, str]()
    for _ in range(2):
        for name in ("bronze", "silver"):
            settings = Settings(
                storage=str(tmp_path), tables=(TableSettings(name=name, path=f"/{name}"),), fleet_asset=f"fleet/{name}"
            )
            job = build_definitions(settings).resolve_job_def(FLEET_JOB)
            tags = {"dagster/code_location": name}
            result = job.execute_in_process(instance=instance, tags=tags)
            assert warnings_of(instance, result.run_id) == []
    for name in ("bronze", "silver"):
        event = instance.get_latest_materialization_event(dg.AssetKey(["fleet", name]))
        assert event is not None
        assert event.asset_materialization is not None
        pages[name] = str(event.asset_materialization.metadata["conditions"].value)
    assert ["bronze" in page for page in pages.values()] == [True, False]
    assert ["silver" in page for page in pages.values()] == [False, True]


@pytest.mark.parametrize(
    ("locations", "warned"), [(["a", "b"], [False, True]), (["a", "a"], [False, False]), (["a", None], [False, False])]
)
def test_run_of_a_fleet_that_another_code_location_materializes_warns(
    fleet: Fleet, locations: list[str | None], warned: list[bool]
) -> None:
    defs, instance = build_definitions(fleet.settings), dg.DagsterInstance.ephemeral()
    found = []
    for location in locations:
        tags = {} if location is None else {"dagster/code_location": location}
        run = defs.resolve_job_def(FLEET_JOB).execute_in_process(instance=instance, tags=tags)
        found.append(warnings_of(instance, run.run_id))
    assert [bool(each) for each in found] == warned
    assert all("The code location a also materializes this asset" in text for each in found for text in each)


def test_sensor_requests_one_run_after_refreshes(fleet: Fleet) -> None:
    sensor, instance = fleet_sensor(fleet.settings), dg.DagsterInstance.ephemeral()
    defs = dg.Definitions(assets=[fleet_asset(fleet.settings)], jobs=[fleet_job(fleet.settings)])
    cursor: str | None = None

    def requests() -> int:
        nonlocal cursor
        result = ticked(sensor, instance, cursor)
        cursor = result.cursor
        return len(result.run_requests or ())

    @dg.op
    def nothing() -> None: ...

    @dg.job
    def job() -> None:
        nothing()

    assert requests() == 0
    job.execute_in_process(instance=instance)
    assert requests() == 0
    for name in ("events", "orders"):
        job.execute_in_process(instance=instance, tags={TABLE_TAG: name})
    assert [requests(), requests()] == [1, 0]
    job.execute_in_process(instance=instance, tags={TABLE_TAG: "events"})
    run = instance.create_run_for_job(defs.resolve_job_def(FLEET_JOB), status=dg.DagsterRunStatus.STARTED)
    assert requests() == 0  # it goes on when that run ends
    instance.delete_run(run.run_id)
    assert requests() == 1


def row(**values: Any) -> dict[str, Any]:
    unknown = ("age_ms", "age_ratio", "latest_version", "stored_version", "versions_behind")
    return {**dict.fromkeys(unknown), **values}


AGES: dict[str, tuple[dict[str, float], str]] = {
    "unknown": ({}, ""),
    "without a usual pause": ({"age_ms": 3_600_000}, "60 minutes"),
    "compared": ({"age_ms": 7_200_000, "age_ratio": 1234.56}, "2 hours (1,234.6 x usual)"),
}


@pytest.mark.parametrize("case", AGES)
def test_age_is_compared_with_the_usual_pause(case: str) -> None:
    values, expected = AGES[case]
    assert age_text(row(**values)) == expected


VERSIONS: dict[str, tuple[dict[str, int], str]] = {
    "unknown": ({}, ""),
    "only stored": ({"stored_version": 7}, "7"),
    "not stored": ({"latest_version": 7}, "7"),
    "current": ({"latest_version": 7, "stored_version": 7, "versions_behind": 0}, "7"),
    "behind": ({"latest_version": 1_234, "stored_version": 0, "versions_behind": 1_234}, "1234 (1,234 behind)"),
    "read long ago": ({"latest_version": 3, "stored_version": 7, "versions_behind": 0}, "7"),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_version_is_the_newest_known_one(case: str) -> None:
    values, expected = VERSIONS[case]
    assert version_text(row(**values)) == expected


def test_numbers_have_their_unit_and_growth_its_sign() -> None:
    assert [growth_text(size) for size in (None, 0, 2048, -1)] == ["", "0 B", "+2 KiB", "-1 B"]
    assert [count_text(count) for count in (None, 0, 1_234)] == ["", "0", "1,234"]
    assert [ratio_text(ratio) for ratio in (None, 0.0, 0.256)] == ["", "0%", "26%"]
    assert [size_text(size) for size in (None, 0, 3 << 20)] == ["", "0 B", "3 MiB"]
