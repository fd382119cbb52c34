"""The facts about the files of a table: counted once, in a thread, and for large versions at most once an hour."""

# ruff: noqa: F811 - the fixture `spark`

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_assets.quantities import HOUR_MS
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.tables import fact_queries
from deltasnap_assets.tables.fact_queries import FactQueries, is_count_due
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.rules.file_actions import ADDS, REMOVES
from tests.assets.checks.known import counted
from tests.builders import add, metadata, protocol, write_log
from tests.driver_bases import spark  # noqa: F401

TABLE = TableSettings(name="t", path="/t")
NOW = 10 * HOUR_MS
KNOWN = replace(counted(version=12), generation="g", counted_at_ms=NOW)
MANIFEST = {"version": 12, "generation": "g", "rows": 1 << 20, "base": SimpleNamespace(last=5)}


@pytest.mark.parametrize(
    ("newest", "minutes", "is_due"),
    [
        ({}, 0, False),
        ({}, 999, False),
        ({"version": 13}, 59, False),
        ({"version": 13}, 60, True),
        ({"version": 13}, -60, True),
        ({"version": 13, "base": SimpleNamespace(last=12)}, 0, False),
        ({"version": 13, "base": SimpleNamespace(last=13)}, 0, True),
        ({"version": 11}, 0, True),
        ({"generation": "of another log"}, 0, True),
    ],
    ids=["same", "same, old", "young", "old", "clock", "base counted", "new base", "rolled back", "other log"],
)
def test_large_version_is_counted_hourly_or_with_its_base(newest: dict[str, Any], minutes: int, is_due: bool) -> None:
    manifest: Any = SimpleNamespace(**{**MANIFEST, **newest})
    assert is_count_due(KNOWN, manifest, NOW + minutes * 60_000) == is_due
    assert is_count_due(None, manifest, NOW)


class Stored:
    """A table and its store. `facts` returns the facts of a new run."""

    def __init__(self, folder: Path) -> None:
        self.path, self.store = folder / "t", SnapshotStore.open(None, folder / "store")
        self.table = TableSettings(name="t", path=str(self.path))
        self.settings = Settings(storage=str(folder / "store"), tables=(self.table,))

    def write(self, version: int) -> None:
        first = [protocol(), metadata()] if version == 0 else []
        write_log(self.path, {version: [*first, add(f"{version}", size=version)]})
        self.store.write_range("t", DeltaLog.for_table(None, self.path), 0, version)

    def facts(self, many_rows: int) -> tuple[int, int]:
        """Return the version of the facts, and the number of its files in them."""
        versions = HeldVersions(self.settings, RunSession({}), "auto")
        queries = FactQueries(versions, many_rows=many_rows)
        found = queries.of(self.table)
        queries.close()
        return found.version, found.files.partitions[0].num_files


@pytest.fixture
def stored(spark: None, tmp_path: Path) -> Stored:
    made = Stored(tmp_path)
    made.write(0)
    return made


def recorded(stored: Stored) -> Any:
    poll = stored.store.polls.read("t")
    return None if poll is None else poll.counted_files


def test_facts_of_a_large_version_hold_for_later_versions_in_other_runs(stored: Stored) -> None:
    assert stored.facts(many_rows=0) == (0, 1)
    stored.write(1)
    assert stored.facts(many_rows=0) == (0, 1)
    poll, known = stored.store.polls.read("t"), recorded(stored)
    assert poll is not None
    stored.store.polls.write("t", replace(poll, counted_files={**known, "counted_at_ms": 0}))
    assert stored.facts(many_rows=0) == (1, 2)
    stored.write(2)
    assert stored.facts(many_rows=0) == (1, 2)


def test_files_of_a_small_version_are_counted_by_each_run_and_not_recorded(stored: Stored) -> None:
    assert stored.facts(many_rows=1) == (0, 1)
    stored.write(1)
    assert stored.facts(many_rows=2) == (1, 2)
    assert recorded(stored) is None


def test_facts_of_a_table_that_was_large_are_replaced(stored: Stored) -> None:
    stored.facts(many_rows=0)
    stored.write(1)
    assert stored.facts(many_rows=2) == (1, 2)
    assert recorded(stored)["version"] == 1


def test_recorded_facts_of_another_release_are_counted_again(stored: Stored) -> None:
    stored.facts(many_rows=0)
    poll = stored.store.polls.read("t")
    assert poll is not None
    stored.store.polls.write("t", replace(poll, counted_files={"version": 0}))
    assert stored.facts(many_rows=0) == (0, 1)
    assert recorded(stored)["files"]["num_partitions"] == 1


class Versions:
    """A fake of HeldVersions, and of its store. The files are counted when `is_counted` is set."""

    def __init__(self) -> None:
        self.is_counted = Event()
        self.error: Exception | None = None
        self.requested: list[int] = []
        self.store = self
        self.polls = SimpleNamespace(read=lambda _: None)

    def names(self, table: str) -> dict[int, str]:
        return {3: "3"}

    def manifests(self, table: str, versions: list[int]) -> dict[int, Any]:
        return {v: SimpleNamespace(version=v, generation="g", rows=1, log_path="/t/_delta_log") for v in versions}

    def states(self, table: str, versions: list[int]) -> dict[int, Any]:
        return {version: SimpleNamespace(metadata=None, size_in_bytes=0) for version in versions}

    @contextmanager
    def files_and_tombstones(self, table: str, manifest: Any, *columns: Any) -> Iterator[Any]:
        self.requested.append(manifest.version)
        self.is_counted.wait(30)
        if self.error is not None:
            raise self.error
        rows = [{"path": "a", "size": 5, "partitionValues": {}, "modificationTime": 0, "dataChange": True}]
        yield pa.Table.from_pylist(rows, ADDS), pa.Table.from_pylist([], REMOVES)


@pytest.fixture
def versions() -> Versions:
    return Versions()


def facts_of(versions: Any) -> FactQueries:
    return FactQueries(versions)


def test_files_and_tombstones_of_a_version_are_counted_together_and_once(versions: Versions) -> None:
    versions.is_counted.set()
    facts = facts_of(versions)
    facts.start(TABLE)
    found = facts.of(TABLE)
    assert (found.files.largest, found.tombstones.num_files) == ((("a", 5),), 0)
    facts.close()
    assert versions.requested == [3]


def test_long_count_reports_its_progress(versions: Versions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_queries, "_REPORT_SECONDS", 0.01)
    messages: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        messages.append(what)
        assert (done, total) == (0, 1)
        if len(messages) == 2:
            versions.is_counted.set()

    facts = facts_of(versions)
    assert facts.of(TABLE, progress).files.num_partitions == 1
    assert len(messages) >= 2
    assert messages[0].startswith("Counting the files of table t by partition, for ")
    reported = len(messages)
    facts.of(TABLE, progress)
    facts.close()
    assert len(messages) == reported


@pytest.mark.parametrize("error", [TimeoutError("of the storage"), RuntimeError("of Spark")], ids=repr)
def test_error_of_the_query_ends_the_wait(versions: Versions, error: Exception) -> None:
    versions.error = error
    versions.is_counted.set()
    facts = facts_of(versions)
    with pytest.raises(type(error), match="of "):
        facts.of(TABLE, lambda *_: None)
    facts.close()
