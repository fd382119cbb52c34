"""The facts of a version are computed once, in a thread, and long queries report progress."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.tables import fact_queries
from deltasnap_assets.tables.fact_queries import FactQueries
from deltasnap_core import FileBreakdown, Protocol
from deltasnap_core.rules.totals.file_breakdown import FileGroup

FOUND = FileBreakdown.of([FileGroup.of_file("a", 5, ()), FileGroup.of_tombstone(1000, 7)])


class Versions:
    """A fake of HeldVersions. The breakdown of a version is available when `is_counted` is set."""

    def __init__(self) -> None:
        self.is_counted = Event()
        self.error: Exception | None = None
        self.requested: list[int] = []
        self.store = self

    def manifests(self, table: str, versions: list[int]) -> dict[int, int]:
        return {version: version for version in versions}

    def states(self, table: str, versions: list[int]) -> dict[int, Any]:
        return {version: SimpleNamespace(metadata=None, protocol=None) for version in versions}

    def file_breakdown(self, table: str, manifest: int) -> FileBreakdown:
        self.requested.append(manifest)
        self.is_counted.wait(30)
        if self.error is not None:
            raise self.error
        return FOUND


@pytest.fixture
def versions() -> Versions:
    return Versions()


@pytest.mark.parametrize(("features", "expected"), [(None, False), (("deletionVectors",), True), (("x",), False)])
def test_tombstones_of_a_table_with_deletion_vectors_are_matched_with_live_files(
    versions: Versions, features: tuple[str, ...] | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=features)
    monkeypatch.setattr(Versions, "states", lambda *_: {3: SimpleNamespace(metadata=None, protocol=protocol)})
    found: list[bool] = []
    monkeypatch.setattr(fact_queries, "tombstone_facts", lambda *_, has_vectors, **__: found.append(has_vectors))
    versions.is_counted.set()
    facts_of(versions).of("t", 3)
    assert found == [expected]


def facts_of(versions: Any) -> FactQueries:
    return FactQueries(versions)


def test_files_and_tombstones_of_a_version_are_computed_together_and_once(versions: Versions) -> None:
    versions.is_counted.set()
    facts = facts_of(versions)
    facts.start("t", 3)
    found = facts.of("t", 3)
    assert (found.files.largest, found.tombstones.num_files) == ((("a", 5),), 1)
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
    assert facts.of("t", 3, progress).files.num_partitions == 1
    assert len(messages) >= 2
    assert messages[0].startswith("Counting the files of version 3 by size and partition, for ")
    reported = len(messages)
    facts.of("t", 3, progress)
    facts.close()
    assert len(messages) == reported


@pytest.mark.parametrize("error", [TimeoutError("of the storage"), RuntimeError("of Spark")], ids=repr)
def test_error_of_the_query_ends_the_wait(versions: Versions, error: Exception) -> None:
    versions.error = error
    versions.is_counted.set()
    facts = facts_of(versions)
    with pytest.raises(type(error), match="of "):
        facts.of("t", 3, lambda *_: None)
    facts.close()
