"""The complete output of `deltasnap size` for given bills and groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_assets.quantities import bytes_text
from deltasnap_core import DeltaLog, MetadataTables, SnapshotStore
from deltasnap_core.scan.tables.storage_bill import StorageBill
from deltasnap_core.support import StorageClass
from tests.assets.command.commands.driver_commands_builders import run
from tests.builders import add, metadata, protocol, write_log
from tests.snapshots import assert_snapshot

NO_BYTES = {f"{each}_bytes": 0 for each in StorageClass}
BILL: dict[str, Any] = {
    **NO_BYTES,
    "version": 3,
    "live_bytes": 7_000_000_000,
    "log_bytes": 1_000_000_000,
    "num_files": 4,
    "expires_ms": None,
    "deleted_records": 0,
}
SPENT = {**BILL, "time_travel_bytes": 2_000, "expires_ms": 1_700_000_000_000, "deleted_records": 1}
UNKNOWN = {**BILL, "vector_bytes": None, "change_data_bytes": None, "orphan_bytes": None, "num_files": None}


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the tables `events` and `users`, of which the file configures the first."""
    for name in ("events", "users"):
        write_log(tmp_path / name, {0: [protocol(), metadata(), add("a")]})
    config = "storage: store\ntables:\n  - {name: events, path: events}\n"
    (tmp_path / "deltasnap.yaml").write_text(config, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    yield tmp_path
    DeltaLog.clear_cache()


def give_bills(monkeypatch: pytest.MonkeyPatch, *bills: dict[str, Any]) -> None:
    """Let the tables have these bills, one after another."""
    given = iter(bills)
    monkeypatch.setattr(MetadataTables, "storage_bill", lambda self, *, list_files: StorageBill(**next(given)))


def give_groups(monkeypatch: pytest.MonkeyPatch, *groups: dict[str, Any]) -> None:
    """Let each table have groups of one file with these columns and live bytes."""
    rows = [{"num_files": 1, **NO_BYTES, **group, "total_bytes": group["live_bytes"]} for group in groups]
    frame = SimpleNamespace(toArrow=lambda: pa.Table.from_pylist(rows))
    monkeypatch.setattr(MetadataTables, "storage_groups", lambda self, by: frame)


def assert_output(name: str, *arguments: str) -> None:
    result = run("size", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = "\n".join(line.rstrip() for line in result.stdout.splitlines())
    assert_snapshot(Path(__file__).with_name(f"size_{name}.txt"), lines)


def test_tables_have_a_line_each_their_sums_costs_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    give_bills(monkeypatch, SPENT, BILL)
    assert_output("of_two_tables", "events", "users", "--price", "0.5")


def test_wide_terminal_shows_also_the_classes_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    give_bills(monkeypatch, BILL)
    assert_output("in_a_wide_terminal", "events")


def test_without_a_listing_unknown_sizes_and_costs_have_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    give_bills(monkeypatch, UNKNOWN)
    assert_output("without_a_listing", "events", "--no-listing", "--price", "0.5")


def test_table_named_twice_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    give_bills(monkeypatch, BILL)
    assert_output("of_a_table_named_twice", "events", "./events")


def test_partitions_are_sorted_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [{"day": "b", "n": None}, {"day": "a", "n": 2}, None, {"day": "c", "n": 1}]
    sizes = (10, 10, 30, 20)
    groups = [{"partition": each, "live_bytes": size} for each, size in zip(partitions, sizes, strict=True)]
    give_groups(monkeypatch, *groups)
    assert_output("by_partition", "events", "--by", "partition")


def test_ages_ascend_and_unknown_ones_are_last(monkeypatch: pytest.MonkeyPatch) -> None:
    give_groups(monkeypatch, *({"age_days": days, "live_bytes": 5} for days in (30, None, 0, 7)))
    assert_output("by_age", "events", "--by", "age")


def test_writers_without_a_name_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    writers = [(None, None, 1), ("WRITE", None, 2), ("WRITE", "nightly", 3)]
    give_groups(monkeypatch, *({"operation": o, "job": j, "live_bytes": size} for o, j, size in writers))
    assert_output("by_writer", "events", "--by", "writer")


def test_groups_beyond_50_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    give_groups(monkeypatch, *({"operation": f"W{n:02}", "job": None, "live_bytes": n} for n in range(1, 54)))
    assert_output("of_many_writers", "events", "--by", "writer")


def test_json_of_what_could_be_read_has_the_errors_of_the_rest(monkeypatch: pytest.MonkeyPatch, lake: Path) -> None:
    give_bills(monkeypatch, UNKNOWN, SPENT)
    result = run("size", "events", "nothing", "users", "--price", "2", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout.replace(str(lake), "LAKE"))
    assert_snapshot(Path(__file__).with_name("size_with_an_error.json"), found)
    assert result.stderr.replace("\n", " ").count("nothing: No Delta table at") == 1


def test_bytes_in_the_store_are_noted_for_a_configured_table(
    session: Any, monkeypatch: pytest.MonkeyPatch, lake: Path
) -> None:
    store = SnapshotStore.open(session, lake / "store")
    store.write_range("events", DeltaLog.for_table(session, lake / "events"), 0, 0)
    size = store.usage("events").size_in_bytes
    give_bills(monkeypatch, BILL, BILL, BILL, BILL)
    rows = json.loads(run("size", "events", "users", "--json").stdout)["rows"]
    assert [row["store_bytes"] for row in rows] == [size, None]
    lines = run("size", "events", "users").stdout.splitlines()
    assert lines[4:] == [f"The store has {bytes_text(size)} of events."]
