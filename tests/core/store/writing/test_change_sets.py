"""What a base and the plain Parquet files of versions consist of, and the sets of changes between versions."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import assume, given

from deltasnap_core import DeltaLog, SnapshotStore, TableLog
from deltasnap_core.errors import LogChangedError, SparkRequiredError, UnsupportedServerError
from deltasnap_core.replay.engine import Question, ReplayEngine, why_spark
from deltasnap_core.storage.urls import join_url, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.format.layout import plain_parquet_path
from deltasnap_core.store.format.manifest import StoreFile
from deltasnap_core.store.writing.plain_parquet_writer import _write_kind
from tests.builders import add, metadata, protocol, write_log
from tests.conftest import FixedClock
from tests.core.replay.driver.held_files_builders import PROPERTY
from tests.oracle import comparable, replay
from tests.random_logs import RandomLog, random_logs, write
from tests.without_spark import log_without_spark

POLICY = ChangePolicy(base_fraction=0.25, least_rows=100, fan_in=4)


@pytest.mark.parametrize(
    ("base_rows", "change_rows", "expected"),
    [(0, 99, False), (0, 100, True), (1000, 249, False), (1000, 250, True), (100, 100, True)],
)
def test_base_is_due_at_the_fraction_from_the_minimum_on(base_rows: int, change_rows: int, expected: bool) -> None:
    assert POLICY.is_base_due(base_rows=base_rows, change_rows=change_rows) is expected


@pytest.mark.parametrize(
    ("earlier", "new", "expected"),
    [
        ([], 3, 0),
        ([3, 3], 3, 0),
        ([3, 3, 3], 3, 3),
        ([50, 3, 3, 3], 3, 3),
        ([12, 12, 12, 3, 3, 3], 3, 6),
        ([200, 3, 3], 60, 0),
        ([5, 5, 5], 20, 3),
    ],
    ids=["none", "few", "enough", "larger before", "cascade", "large new", "small before large"],
)
def test_sets_of_one_size_are_merged(earlier: list[int], new: int, expected: int) -> None:
    assert POLICY.sets_to_merge(earlier, new) == expected


def test_default_policy_keeps_seven_sets_and_a_quarter_of_the_base() -> None:
    policy = ChangePolicy()
    assert [policy.sets_to_merge([1] * sets, 1) for sets in (6, 7)] == [0, 7]
    assert [policy.is_base_due(base_rows=0, change_rows=rows) for rows in (9_999, 10_000)] == [False, True]
    assert [policy.is_base_due(base_rows=80_000, change_rows=rows) for rows in (19_999, 20_000)] == [False, True]


def test_rewritten_sets_and_rows_grow_only_logarithmically() -> None:
    policy, sets, written, versions = ChangePolicy(fan_in=8), list[int](), 0, 5000
    most = 0
    for _ in range(versions):
        merged = policy.sets_to_merge(sets, 20)
        size = 20 + sum(sets[len(sets) - merged :])
        sets[len(sets) - merged :] = [size]
        written += size
        most = max(most, len(sets))
    levels = math.log(versions, 8) + 2
    assert sum(sets) == 20 * versions
    assert most <= 7 * levels
    assert written / (20 * versions) <= levels


def test_bases_cost_each_changed_row_a_constant() -> None:
    policy, files, bases, since = ChangePolicy(), 1_000_000, 1, 0
    rows = 0
    for _ in range(100_000):
        since += 20
        if policy.is_base_due(base_rows=files, change_rows=since):
            bases, since, rows = bases + 1, 0, rows + files
    assert rows / (20 * 100_000) <= 1 / policy.base_fraction


@pytest.mark.parametrize("arguments", [{"fan_in": 1}, {"base_fraction": 0}, {"least_rows": -1}])
def test_invalid_policy_is_rejected(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected a positive fraction"):
        ChangePolicy(**arguments)  # type: ignore[arg-type]


def test_size_classes_never_fall_as_rows_grow() -> None:
    sizes = [POLICY._size_class(rows) for rows in range(1000)]
    assert all(smaller <= larger for smaller, larger in pairwise(sizes))


def test_smallest_policy_writes_a_base_for_any_change() -> None:
    policy = ChangePolicy(least_rows=0, base_fraction=1e-9, fan_in=2)
    assert policy.is_base_due(base_rows=1_000, change_rows=1)
    assert policy.sets_to_merge([1], 1) == 1


def log_for_a_person(folder: Path) -> DeltaLog:
    log = log_without_spark(TableLog.for_path(folder, clock=FixedClock()))
    engine = ReplayEngine(log.context.engine.sessions, "person")
    return DeltaLog(replace(log.context, engine=engine), staleness_limit_ms=0)


@pytest.mark.slow
@PROPERTY
@given(made=random_logs())
def test_base_of_every_version_has_the_files_of_the_oracle(made: RandomLog) -> None:
    states, read = replay(made.commits), 0
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "t"), made, states)
        log = log_for_a_person(Path(folder, "t"))
        for version in made.versions:
            store = SnapshotStore.open(None, Path(folder, f"store{version}"), engine="person")
            try:
                store.write_versions("t", log, [version])
            except SparkRequiredError:  # an action that only Spark reads
                continue
            read += 1
            rows = [{"add": row} for row in store.read_arrow("t", version).to_pylist(maps_as_pydicts="strict")]
            assert comparable(rows) == comparable({"add": file} for file in states[version].files.values())
            state = store.computed_state("t", version)
            assert state.num_of_files == len(rows)
            assert state.num_of_removes == len(store.read_arrow("t", version, "tombstones"))
    assume(read)


def test_only_for_a_person_the_driver_reconstructs(tmp_path: Path) -> None:
    log_folder = write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a")]})
    log = log_without_spark(TableLog.for_path(log_folder.parent, clock=FixedClock()))
    with pytest.raises(SparkRequiredError, match="a version stored in full: always on Spark"):
        SnapshotStore.open(None, tmp_path / "store").write_range("t", log, 0, 0)


@pytest.mark.parametrize(("rows", "is_on_spark"), [(50_000, False), (50_001, True), (None, True)])
def test_spark_reconstructs_large_versions_for_a_person_too(rows: int | None, is_on_spark: bool) -> None:
    assert (why_spark(Question.RECONSTRUCT, rows, "person") is not None) is is_on_spark


EMPTY = ""


class Rows:
    """Rows of versions, and the files that a write of them makes."""

    def __init__(self, *versions: int) -> None:
        self.versions = versions

    def repartition(self, number: int, column: str) -> Rows:
        assert (number, column) == (3, "version")
        return self

    def sortWithinPartitions(self, column: str) -> Rows:  # noqa: N802  # Spark's name
        assert column == "version"
        return self

    def coalesce(self, number: int) -> Rows:
        assert number == 1
        return self


class Parquet:
    """Writes a file for each version, or one for no rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.storage = to_url(folder), WritableFiles(to_url(folder))

    def no_rows(self, _: object) -> Rows:
        return Rows()

    def write(self, rows: Rows, target: str, *, partition_by: str | None = None, keep_empty: bool = False) -> Any:
        assert (partition_by, keep_empty) == (("version", False) if rows.versions else (None, True))
        names = [f"{target}/version={version}/{place}.parquet" for place, version in enumerate(rows.versions)]
        files = [StoreFile(path=name, size=3, rows=1, footer="f") for name in names or [f"{target}/none.parquet"]]
        content = {join_url(self.folder, file.path): file.path.partition("=")[2].encode() for file in files}
        self.storage.write_many(content)
        return files


def written(folder: Path, rows: Rows | None, check: Callable[[], object] = lambda: None) -> dict[int, StoreFile]:
    parquet: Any = Parquet(folder)
    frame: Any = rows
    return _write_kind(parquet, "all_files", frame, [1, 2, 3], check)


def files_in(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("rows", [Rows(1, 3), None], ids=["some", "none"])
def test_each_version_gets_a_file_and_nothing_else_stays(tmp_path: Path, rows: Rows | None) -> None:
    found = written(tmp_path, rows)
    paths = {version: plain_parquet_path("all_files", version) for version in (1, 2, 3)}
    assert {version: (file.path, file.footer) for version, file in found.items()} == {
        version: (path, None) for version, path in paths.items()
    }
    content = files_in(tmp_path)
    assert {*content} == {*paths.values()}
    assert [content[paths[version]] for version in (1, 3)] == (["1/0.parquet", "3/1.parquet"] if rows else [EMPTY] * 2)
    assert content[paths[2]] == EMPTY


def test_two_files_for_a_version_are_an_error_and_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedServerError, match="more than one for version 2"):
        written(tmp_path, Rows(2, 2))
    assert {*files_in(tmp_path)} == {plain_parquet_path("all_files", 2)}


@pytest.mark.parametrize("rows", [Rows(1, 2, 3), None], ids=["rows", "none"])
def test_files_of_a_later_log_are_not_replaced(tmp_path: Path, rows: Rows | None) -> None:
    paths = {plain_parquet_path("all_files", version): "later" for version in (1, 2, 3)}
    WritableFiles(to_url(tmp_path)).write_many({join_url(to_url(tmp_path), path): b"later" for path in paths})
    with pytest.raises(LogChangedError):
        written(
            tmp_path,
            rows,
            Mock(side_effect=LogChangedError(path="t/_delta_log", file="2.json", expected="1 byte", found="2 bytes")),
        )
    assert files_in(tmp_path) == paths
