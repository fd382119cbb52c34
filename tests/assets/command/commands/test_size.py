"""`deltasnap size` end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, SnapshotStore
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, metadata, protocol, write_log


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a configured table of one file and an orphan."""
    write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a", size=3)]})
    (tmp_path / "t" / "a").write_bytes(b"abc")
    (tmp_path / "t" / "left").write_bytes(b"xy")
    (tmp_path / "deltasnap.yaml").write_text("storage: store\ntables:\n  - {name: events, path: t}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run("size", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return found


def test_bills_of_all_configured_tables_with_their_costs(session: Any, folder: Path) -> None:
    (bill,) = rows("--price", "1000000000")
    log = sum(file.stat().st_size for file in (folder / "t" / "_delta_log").iterdir())
    assert (bill["table"], bill["live_bytes"], bill["orphan_bytes"], bill["log_bytes"]) == ("events", 3, 2, log)
    assert bill["monthly_cost"] == bill["total_bytes"] == log + 5


@pytest.mark.spark
def test_json_has_the_sums_and_what_was_not_read(session: Any, folder: Path) -> None:
    write_log(folder / "other", {0: [protocol(), metadata(), add("b", size=5)]})
    (folder / "other" / "b").write_bytes(b"abcde")
    store = SnapshotStore.open(session, folder / "store")
    store.write_range("events", DeltaLog.for_table(session, folder / "t"), 0, 0)
    result = run("size", "events", "./t", "other", "nothing", "--price", "2000000000", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [row["table"] for row in found["rows"]] == ["events", "other"]  # `./t` is `events`
    assert [row["store_bytes"] for row in found["rows"]] == [store.usage("events").size_in_bytes, None]
    assert found["price"] == 2e9
    (error,) = found["errors"]
    assert error["table"] == "nothing"
    totals = found["totals"]
    assert (totals["tables"], totals["live_bytes"], totals["orphan_bytes"], totals["store_bytes"]) == (2, 8, 2, None)
    assert totals["total_bytes"] == sum(row["total_bytes"] for row in found["rows"])
    assert totals["monthly_cost"] == 2 * totals["total_bytes"]


@pytest.mark.spark
def test_csv_has_the_same_columns_without_a_listing_and_a_price(session: Any, folder: Path) -> None:
    headers = {run("size", *options, "--format", "csv").stdout.partition("\n")[0] for options in ([], ["--no-listing"])}
    (header,) = headers
    assert {"table", "live_bytes", "orphan_bytes", "total_bytes", "monthly_cost"} <= set(header.split(","))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("by", "keys"),
    [
        ("writer", {"operation", "job"}),
        pytest.param("partition", {"partition"}, marks=pytest.mark.thorough),
        pytest.param("age", {"age_days"}, marks=pytest.mark.thorough),
    ],
)
def test_groups_add_up_to_the_total(session: Any, folder: Path, by: str, keys: set[str]) -> None:
    found = json.loads(run("size", "events", "--by", by, "--price", "1000000000", "--json").stdout)
    assert all(keys <= set(row) for row in found["rows"])
    size = sum(file.stat().st_size for file in (folder / "t").rglob("*") if file.is_file())
    assert sum(row["total_bytes"] for row in found["rows"]) == found["totals"]["total_bytes"] == size
    assert sum(row["monthly_cost"] for row in found["rows"]) == size


@pytest.mark.spark
def test_store_knows_the_writers_of_commits_that_the_log_no_longer_has(session: Any, folder: Path) -> None:
    table = folder / "t2"
    write_deltalake(table, pa.table({"id": [1, 2, 3]}))
    write_deltalake(table, pa.table({"id": [4]}), mode="append")
    DeltaTable(table).optimize.compact()
    write_deltalake(table, pa.table({"id": [5]}), mode="append")
    config = "storage: store\ntables:\n  - {name: events, path: t2}\n"
    (folder / "deltasnap.yaml").write_text(config, encoding="utf-8")
    SnapshotStore.open(session, folder / "store").write_range("events", DeltaLog.for_table(session, table), 0, 3)
    before = writers("events")
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert writers("events") == before
    assert set(before) == {"WRITE", "OPTIMIZE"}
    assert set(writers(str(table))) == {None}  # without the store


def writers(target: str) -> dict[str | None, int]:
    """Return the bytes of the table without its log, by operation."""
    return {
        row["operation"]: size
        for row in rows(target, "--by", "writer")
        if (size := row["total_bytes"] - row["log_bytes"])
    }


@pytest.mark.spark
def test_groups_are_named(session: Any, folder: Path) -> None:
    result = run("size", "events", "--by", "partition")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[:2] for line in lines] == [
        ["table", "partition"],
        ["events", "none"],
        ["events", "all"],
        ["1", "table"],
    ]


def test_groups_need_the_listing(folder: Path) -> None:
    result = run("size", "events", "--by", "age", "--no-listing")
    assert result.exit_code == 2
    assert "Groups need the listing." in result.stderr
