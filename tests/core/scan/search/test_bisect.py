"""`bisect`: the version that broke an expectation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, DeltaTableNotFoundError, SnapshotStore, Table, VersionGapError, open_table
from deltasnap_core.errors import CorruptLogError, DataFileNotFoundError, PredicateError, VersionNotFoundError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.scan.search.bisect import ChangedFile, Outcome
from deltasnap_core.scan.search.judge import Judgement
from tests.builders import add, metadata, protocol, remove, write_log
from tests.core.scan.scan_builders import file, ids
from tests.core.scan.search.bisect_builders import append, appended, repartitioned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NULL = "amount is null"


def opened(spark: SparkSession, path: Path, version: int | None = None) -> Table:
    return open_table(path, version=version, spark=spark)


def judged(steps: tuple[Judgement, ...]) -> list[int]:
    return [step.version for step in steps]


@pytest.mark.parametrize("parts", [False, True], ids=["plain", "partitioned"])
def test_bad_commit_among_many_is_named_with_its_job_files_and_rows(
    spark: SparkSession, tmp_path: Path, parts: bool
) -> None:
    table = opened(spark, appended(tmp_path / "t", 20, bad=13, parts=parts))
    found = table.bisect(where=NULL)
    assert (found.outcome, found.version, found.is_first) == (Outcome.FOUND, 13, False)
    assert (found.first_possible, found.last_possible) == (13, 13)
    assert found.commit is not None
    assert (found.commit.operation, found.commit.extra["job"]) == ("WRITE", "bad job")
    assert sum(each.rows for each in found.files) == 3
    assert len(found.files) == (2 if parts else 1)
    assert found.rows is not None
    rows = found.rows.to_arrow()
    assert rows.column_names == ["id", "day", "amount", "_change_type"]
    assert sorted(rows["id"].to_pylist()) == [39, 40, 41]
    assert set(rows["_change_type"].to_pylist()) == {"insert"}


def test_search_takes_few_steps_and_reads_each_file_at_most_once(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 20, bad=13)
    DeltaTable(path).optimize.compact()
    shown: list[Judgement] = []
    found = opened(spark, path).bisect(where="amount is null and id >= 0", on_step=shown.append)
    assert found.version == 13
    assert tuple(shown) == found.steps
    assert judged(found.steps)[:2] == [20, 0]
    assert len(found.steps) <= 7
    assert sum(step.files_read for step in found.steps) == 2  # the compacted file, and the bad one: others are skipped


def test_update_delete_and_overwrite_are_found_with_the_rows_that_they_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = appended(tmp_path / "t", 4, bad=-1)
    table = DeltaTable(path)
    table.update(updates={"amount": "null"}, predicate="id = 4")
    table.delete("id = 7")
    append(path, 90)
    found = opened(spark, path).bisect(where=NULL)
    assert (found.version, found.commit and found.commit.operation) == (4, "UPDATE")
    assert found.rows is not None
    assert found.rows.select("id", "_change_type").to_arrow().to_pylist() == [{"id": 4, "_change_type": "insert"}]
    found = opened(spark, path).bisect(where="id < 12", expect="count >= 12", good=4)
    assert (found.version, found.commit and found.commit.operation) == (5, "DELETE")
    assert found.rows is not None
    assert found.rows.select("id", "_change_type").to_arrow().to_pylist() == [{"id": 7, "_change_type": "delete"}]
    assert sorted((each.is_added, each.rows) for each in found.files) == [(False, 3), (True, 2)]


def test_first_is_the_first_version_that_fails_even_if_later_ones_hold(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for version in range(12):
        if version == 5:
            DeltaTable(path).delete(NULL)
        else:
            append(path, 3 * version, None if version in (3, 9) else 1.0)
    found = opened(spark, path).bisect(where=NULL)
    assert found.version in (3, 9)
    first = opened(spark, path).bisect(where=NULL, first=True)
    assert (first.version, first.is_first) == (3, True)
    assert judged(first.steps) == [11, 0, 1, 2, 3]


def test_nothing_is_found_if_the_bad_end_holds_or_the_good_end_fails(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, appended(tmp_path / "t", 6, bad=3))
    holds = table.bisect(where=NULL, bad=2)
    assert (holds.outcome, holds.version, holds.held and holds.held.version) == (Outcome.HOLDS, None, 2)
    failed = table.bisect(where=NULL, good=3)
    assert (failed.outcome, failed.version, failed.failed and failed.failed.version) == (Outcome.FAILED_BEFORE, None, 3)
    assert (failed.first_possible, failed.last_possible, failed.rows) == (None, None, None)
    assert table.bisect(where=NULL, bad=0).outcome is Outcome.HOLDS


def test_table_is_searched_up_to_the_version_that_was_opened(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 6, bad=3)
    assert opened(spark, path, version=2).bisect(where=NULL).outcome is Outcome.HOLDS
    assert opened(spark, path, version=4).bisect(where=NULL).version == 3


def test_bad_version_after_the_one_that_was_opened_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, appended(tmp_path / "t", 6, bad=5), version=2)
    with pytest.raises(ValueError, match="bad version up to 2, found 5"):
        table.bisect(where=NULL, bad=5)
    with pytest.raises(VersionNotFoundError):
        table.bisect(where=NULL, bad=6)


@pytest.mark.parametrize(
    "where",
    ["rand() < 0.5", "id > 0 and uuid() = 'a'", "monotonically_increasing_id() = 0", "input_file_name() = '' --"],
)
def test_condition_that_differs_each_time_is_an_error(spark: SparkSession, tmp_path: Path, where: str) -> None:
    with pytest.raises(PredicateError, match="something else each time"):
        opened(spark, appended(tmp_path / "t", 3, bad=1)).bisect(where=where)


def test_first_tries_every_version_before_those_that_cannot_be_judged(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_log(
        path,
        {
            0: [protocol(), metadata(), add("gone-0.parquet", size=9)],
            1: [remove("gone-0.parquet"), file(path, "1.parquet", ids(1))],
            2: [file(path, "2.parquet", ids(7))],
            3: [add("gone-3.parquet", size=9)],
            **{version: [remove(f"gone-{version - 1}.parquet")] for version in range(4, 7)},
        },
    )
    table = opened(spark, path)
    assert table.bisect(where="id = 7").outcome is Outcome.FAILED_BEFORE
    assert (found := table.bisect(where="id = 7", first=True)).version == 2
    assert (found.held and found.held.version, found.is_first) == (1, True)
    assert table.bisect(where="id = 1", first=True).outcome is Outcome.FAILED_BEFORE


def test_rows_before_another_partitioning_have_their_values(spark: SparkSession, tmp_path: Path) -> None:
    path = repartitioned(tmp_path / "t")
    found = opened(spark, path).bisect(where="amount = 1", expect="count = 1", bad=1)
    assert found.rows is not None
    assert found.rows.to_arrow().to_pylist() == [{"id": 1, "day": "a", "amount": 1, "_change_type": "delete"}]


def test_versions_that_cannot_be_judged_are_skipped_and_become_a_range(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    commits = {0: [protocol(), metadata()]}
    for version in range(1, 9):
        commits[version] = [file(path, f"{version}.parquet", ids(version))]
    write_log(path, commits)
    for version in (3, 5, 6):  # only these versions lack the file: the next one replaces it
        commits[version].append(add(f"gone-{version}.parquet", size=9))
        commits[version + 1].append(remove(f"gone-{version}.parquet"))
    write_log(path, commits)
    found = opened(spark, path).bisect(where="id = 6", good=1)
    assert (found.outcome, found.version) == (Outcome.FOUND, None)
    assert (found.first_possible, found.last_possible, found.commit) == (5, 7, None)
    assert "gone-5.parquet" in str([step.problem for step in found.steps])
    assert found.files == (ChangedFile(path="6.parquet", is_added=True, rows=1),)
    outside = opened(spark, path).bisect(where="id = 2", first=True)
    assert (outside.version, outside.is_first) == (2, True)


def test_default_good_end_is_the_earliest_version_that_can_be_judged(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 10, bad=7)
    gone = DeltaTable(path, version=0).file_uris()[0]
    table = DeltaTable(path)
    table.optimize.compact()  # version 10
    append(path, 99, None)
    Path(gone).unlink()
    found = opened(spark, path).bisect(where="id >= 99")
    assert (found.version, found.held and found.held.version) == (11, 10)
    with pytest.raises(DataFileNotFoundError, match="Version 3"):
        opened(spark, path).bisect(where="id >= 0", expect="count < 33", good=3)


def test_column_that_a_version_lacks_cannot_be_judged_there(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for version in range(3):
        append(path, 3 * version)
    for version, extra in ((3, 1), (4, 2)):
        rows = pa.table({"id": pa.array([10 * version], pa.int64()), "extra": pa.array([extra], pa.int64())})
        write_deltalake(path, rows, mode="append", schema_mode="merge")
    table = opened(spark, path)
    found = table.bisect(where="extra = 2")
    assert (found.version, found.held and found.held.version) == (4, 3)
    failed = table.bisect(where="extra is null")
    assert (failed.outcome, failed.failed and failed.failed.version) == (Outcome.FAILED_BEFORE, 3)
    assert "extra" in str([step.problem for step in failed.steps if step.version == 2])
    with pytest.raises(PredicateError, match=r"version 1: .*extra"):
        table.bisect(where="extra = 2", good=1)


def test_meaning_of_a_condition_follows_the_columns_of_each_version(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    append(path, 0)
    write_deltalake(path, pa.table({"id": ["x", "y"]}), mode="overwrite", schema_mode="overwrite")
    table = opened(spark, path)
    found = table.bisect(where="cast(id as string) = 'x'")
    assert (found.version, [(each.is_added, each.rows) for each in found.files]) == (1, [(True, 1)])
    found = table.bisect(where="id is not null", expect="count = 3")
    assert sorted((each.is_added, each.rows) for each in found.files) == [(False, 3), (True, 2)]
    assert found.rows is not None
    assert sorted(found.rows.to_arrow()["id"].to_pylist()) == ["x", "y"]  # the rows before have another type


def test_log_without_any_version_that_can_be_loaded_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path, {3: [add("a")]})
    with pytest.raises(VersionGapError):
        DeltaLog.for_table(None, tmp_path).known_versions()


def test_repeated_values_are_found_and_nulls_are_not_repeated(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 5, bad=1)
    append(path, 3)  # version 5 repeats the ids of version 1
    append(path, 90)
    table = opened(spark, path)
    found = table.bisect(unique="id")
    assert (found.version, found.failed and found.failed.number, found.files) == (5, 3, ())
    assert found.rows is not None
    assert sorted(found.rows.to_arrow()["id"].to_pylist()) == [3, 3, 4, 4, 5, 5]
    assert table.bisect(unique=["id", "amount"]).outcome is Outcome.HOLDS  # those of version 1 have no amount
    with pytest.raises(PredicateError, match="no column 'nothing'"):
        table.bisect(unique="nothing")


@pytest.mark.spark
def test_repeated_maps_are_not_looked_for(spark: SparkSession, tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64()))
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "m": maps, "s": pa.StructArray.from_arrays([maps], ["m"])}))
    for column in ("m", "s", "s.m"):
        with pytest.raises(PredicateError, match="maps and variants are not compared"):
            opened(spark, tmp_path).bisect(unique=["id", column])


def test_lost_file_is_found_without_spark(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a b"), add("c")], 1: [add("d")], 2: [remove("a b")], 3: []})
    table = open_table(tmp_path, spark=GivenSession(None))
    found = table.bisect(file="a b")
    assert (found.version, found.rows, found.files) == (2, None, ())
    assert table.bisect(file="c").outcome is Outcome.HOLDS
    assert table.bisect(file="e").outcome is Outcome.FAILED_BEFORE


@pytest.mark.parametrize("text", ["file:{}/c d", "file://{}/c d", "file://{}/c%20d", "{}/c d", "c d", "c%20d"])
def test_file_is_found_by_its_url_as_well_as_by_its_path_in_the_log(tmp_path: Path, text: str) -> None:
    write_log(
        tmp_path, {0: [protocol(), metadata(), add("c%20d")], 1: [remove("c%20d"), add(f"file:{tmp_path}/c%20d")]}
    )
    table = open_table(tmp_path, spark=GivenSession(None))
    wanted = text.format(tmp_path)
    assert [table.bisect(file=wanted, bad=version).outcome for version in (0, 1)] == [Outcome.HOLDS] * 2


def test_file_is_found_by_its_url_in_a_folder_with_a_percent_sign(tmp_path: Path) -> None:
    write_log(tmp_path / "a%20b", {0: [protocol(), metadata(), add("c%20d")]})
    table = open_table(tmp_path / "a%20b", spark=GivenSession(None))
    assert table.bisect(file=f"file:{tmp_path}/a%2520b/c%20d").outcome is Outcome.HOLDS
    assert table.bisect(file=f"file:{tmp_path}/a%20b/c%20d").outcome is Outcome.FAILED_BEFORE


def test_rule_counts_all_rows_without_a_condition(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(spark, appended(tmp_path / "t", 8, bad=-1))
    for rule, version in (("count < 10", 3), ("count <= 12", 4), ("count != 9", None), ("count = 3", 1)):
        assert table.bisect(expect=rule).version == version, rule
    assert table.bisect(expect="count > 20", bad=6).outcome is Outcome.HOLDS


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "found none"),
        ({"where": NULL, "expect": "sum = 3"}, "found 'sum = 3'"),
        ({"file": "a", "where": NULL}, "a file alone"),
        ({"where": NULL, "good": 2, "bad": 2}, "found 2 and 2"),
        ({"expect": f"count < {10**18}"}, "such as 'count <= 10'"),
        ({"expect": "count < ٣"}, "such as 'count <= 10'"),
    ],
    ids=["nothing", "rule", "file", "ends", "large number", "other digits"],
)
def test_invalid_expectation_is_an_error(tmp_path: Path, wanted: dict[str, Any], message: str) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [], 2: []})
    with pytest.raises(ValueError, match=message):
        open_table(tmp_path, spark=GivenSession(None)).bisect(**wanted)
    with pytest.raises(TypeError, match="unexpected option 'when'"):
        open_table(tmp_path, spark=GivenSession(None)).bisect(when=NULL)  # type: ignore[call-arg]


def test_versions_that_only_the_store_still_has_are_searched_too(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 8, bad=3)
    log, store = DeltaLog.for_table(spark, path), SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", log, 0, 5)
    assert store.known_versions("t").bisect(where=NULL).version == 3
    log.checkpoint(6)
    for version in range(6):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    DeltaLog.clear_cache()
    cleaned = DeltaLog.for_table(spark, path)
    assert cleaned.known_versions().bisect(where=NULL).outcome is Outcome.FAILED_BEFORE
    both = store.known_versions("t", cleaned)
    assert list(both.numbers) == list(range(8))
    found = both.bisect(where=NULL)
    assert (found.version, found.commit and found.commit.operation) == (3, "WRITE")
    nowhere = DeltaLog.for_table(spark, tmp_path / "nothing")
    assert store.known_versions("t", nowhere).bisect(where=NULL).version == 3
    with pytest.raises(DeltaTableNotFoundError):
        store.known_versions("other", nowhere)


def test_versions_that_a_damaged_commit_hides_are_those_of_the_store(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 8, bad=5)
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(spark, path), 0, 6)
    (path / "_delta_log" / f"{4:020}.json").write_text("{")
    DeltaLog.clear_cache()
    versions = store.known_versions("t", DeltaLog.for_table(spark, path))
    assert versions.bisect(where=NULL, bad=6, first=True).version == 5
    with pytest.raises(CorruptLogError):
        versions.bisect(where=NULL)
