"""The versions whose row changes an asset gets since its last run. Finding them needs no JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.runs.planning.partitions import version_partitions
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.last_run import ConsumingAsset, LastRunError, ReadVersion
from deltasnap_assets.tables.assets.row_change_inputs import (
    StoredRowChanges,
    _since_last_run,
    row_changes_of,
)
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import ScanOptions
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table

__all__ = ["original", "table"]

UNUSED: Any = None


class Consumer:
    """An asset whose last run read a version; None: it never ran."""

    def __init__(self, table: Table, last: int | None) -> None:
        self.read = None if last is None else ReadVersion.of(store_of(table.settings).manifest("events", last))
        self.recorded: list[tuple[int, int | None]] = []

    def last_read(self) -> ReadVersion | None:
        return self.read

    def error(self, reason: str) -> LastRunError:
        return LastRunError(table="events", consumer="mirror", reason=reason)

    def record(self, read: ReadVersion, since: int | None) -> None:
        self.recorded.append((read.version, since))

    def changes(self, table: Table, version: int = LAST) -> StoredRowChanges:
        consumer: Any = self
        snapshots = RunSnapshots(table.settings, UNUSED)
        return _since_last_run(snapshots, consumer, "events", version, {})


def cut(table: Table, last: int) -> None:
    """Remove the later commits from the log."""
    for version in range(last + 1, LAST + 1):
        (table.path / "_delta_log" / f"{version:020d}.json").unlink()


def test_changes_begin_after_the_version_of_the_last_run(table: Table) -> None:
    for since in (None, 0, LAST - 1, LAST):
        consumer = Consumer(table, since)
        found = consumer.changes(table)
        assert (found.since, found.last, found.from_log) == (since, LAST, False)
        assert consumer.recorded == [(LAST, since)]


def test_log_is_read_if_the_store_lacks_a_version_between(table: Table) -> None:
    consumers = {since: Consumer(table, since) for since in (None, 0, 2, 3, 4)}
    store_of(table.settings).prune("events", keep=2)
    found = {since: consumer.changes(table).from_log for since, consumer in consumers.items()}
    assert found == {None: False, 0: True, 2: True, 3: False, 4: False}


def test_versions_lost_in_the_store_and_in_the_log_are_an_error(table: Table) -> None:
    consumer = Consumer(table, 1)
    store_of(table.settings).prune("events", keep=2)
    cut(table, LAST - 1)
    with pytest.raises(LastRunError, match="version 2 is not stored, and the log was rolled back"):
        consumer.changes(table)
    assert consumer.recorded == []
    assert consumer.changes(table, LAST - 1).from_log


def test_last_run_of_a_later_version_is_an_error(table: Table) -> None:
    consumer = Consumer(table, LAST)
    with pytest.raises(LastRunError, match=f"that run read version {LAST}, which the history of version"):
        consumer.changes(table, LAST - 1)


def test_changes_of_a_version_begin_at_the_one_before() -> None:
    found = row_changes_of(UNUSED, "events", [0, 1, 5], "of_version", {})
    assert {version: (each.since, each.last, each.from_log) for version, each in found.items()} == {
        0: (None, 0, False),
        1: (0, 1, False),
        5: (4, 5, False),
    }


def test_input_since_the_last_run_reads_up_to_one_version_of_another_partitioning(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer: Any = Consumer(table, 2)
    monkeypatch.setattr(ConsumingAsset, "of_step", lambda _: consumer)

    def found(versions: list[int], partitions: Any = None) -> dict[int, StoredRowChanges]:
        consumer.context = SimpleNamespace(assets_def=SimpleNamespace(partitions_def=partitions))
        return row_changes_of(RunSnapshots(table.settings, UNUSED), "events", versions, "since_last_run", {})

    assert found([]) == {}
    assert {version: (each.since, each.last) for version, each in found([4], version_partitions("other")).items()} == {
        4: (2, 4)
    }
    with pytest.raises(LastRunError, match="expected one version to read up to, found 2"):
        found([4, 5])
    with pytest.raises(LastRunError, match="each of its partitions is a version, so use 'row_changes': 'of_version'"):
        found([4], version_partitions("events"))


@pytest.mark.parametrize(
    ("since", "from_log", "expected"),
    [(2, False, ("store", "events", 2, 5)), (2, True, ("log", 3, 5)), (None, True, ("store", "events", None, 5))],
)
def test_changes_are_queried_in_the_store_or_the_log(since: int | None, from_log: bool, expected: Any) -> None:
    asked: list[Any] = []
    options: Any = {"key": ("id",), "net": True, "where": "x > 1", "columns": ("x",)}
    snapshots: Any = SimpleNamespace(
        table=lambda _: TableSettings(name="events", path="/lake/events", storage_options={"a": 1}),
        store=SimpleNamespace(row_changes_since=lambda *place, **wanted: asked.append((("store", *place), wanted))),
        log=lambda _: SimpleNamespace(row_changes=lambda *place, **wanted: asked.append((("log", *place), wanted))),
    )
    StoredRowChanges(
        snapshots=snapshots, table="events", since=since, last=5, options=options, from_log=from_log
    ).value()
    assert asked == [(expected, {**options, "options": ScanOptions(storage_options={"a": 1})})]
