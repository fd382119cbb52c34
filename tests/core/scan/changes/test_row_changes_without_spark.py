"""Which rows of which files a table's versions changed. Reading the rows needs Spark, planning does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltasnap_core import TableLog
from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    RowChangesError,
    SparkRequiredError,
    VersionNotFoundError,
)
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.scan.changes.row_changes import _CHANGE_FIELDS, RowChanges, _file, _result_schema, _with_fields
from deltasnap_core.snapshot.row_changes_of_log import read_row_changes
from tests.builders import FIRST_COMMIT_MS, Action, add, field, metadata, mtime_of, protocol, remove, schema, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.files_to_read_builders import Copies
from tests.without_spark import log_without_spark

FEED = {"delta.enableChangeDataFeed": "true"}
VERSIONS: dict[int, list[Action]] = {
    0: [protocol(), metadata(), add("a", size=10), add("b", size=20)],
    1: [remove("a", size=10), add("c", size=30)],
    2: [add("d", dataChange=False), remove("b", dataChange=False)],
    3: [add("e", size=50)],
    4: [protocol(1, 4), metadata(configuration=FEED), remove("e", partitionValues=None), add("f", size=60)],
    5: [{"cdc": {"path": "_change_data/1", "partitionValues": {}, "size": 7, "dataChange": False}}, remove("f")],
}


def planned(table: Path, first: int, last: int, **options: Any) -> RowChanges:
    return read_row_changes(log_without_spark(TableLog.for_path(table)).context, first, last, options=None, **options)


def rows(changes: RowChanges) -> list[tuple[int, str | None, str, int | None]]:
    return [(each.version, each.change, each.path, each.size) for each in changes.rows]


def test_files_with_changed_rows_are_found_in_the_commits(tmp_path: Path) -> None:
    write_log(tmp_path, VERSIONS)
    assert rows(planned(tmp_path, 0, 4)) == [
        (0, "insert", "a", 10),
        (0, "insert", "b", 20),
        (1, "delete", "a", 10),
        (1, "insert", "c", 30),
        (3, "insert", "e", 50),
        (4, "delete", "e", None),
        (4, "insert", "f", 60),
    ]


def test_recorded_changes_replace_those_of_the_files(tmp_path: Path) -> None:
    write_log(tmp_path, VERSIONS)
    assert rows(planned(tmp_path, 5, 5)) == [(5, None, "_change_data/1", 7)]


def test_versions_have_their_time_metadata_and_feed(tmp_path: Path) -> None:
    write_log(tmp_path, VERSIONS)
    changes = planned(tmp_path, 3, 5)
    assert {
        version: (each.timestamp, each.metadata.configuration, each.metadata_before.configuration, each.is_recorded)
        for version, each in changes.versions.items()
    } == {3: (mtime_of(3), {}, {}, False), 4: (mtime_of(4), FEED, {}, True), 5: (mtime_of(5), FEED, FEED, True)}
    assert (changes.table.version, changes.table.metadata.configuration) == (5, FEED)


def test_feed_that_the_protocol_does_not_support_records_nothing(tmp_path: Path) -> None:
    feed = metadata(configuration=FEED)
    write_log(tmp_path, {0: [protocol(), feed, add("a")], 1: [remove("a"), add("b")], 2: [protocol(1, 4)]})
    changes = planned(tmp_path, 0, 2)
    assert {version: each.is_recorded for version, each in changes.versions.items()} == {0: False, 1: False, 2: True}
    assert changes._compared_versions == {1}


def test_rows_are_compared_only_where_a_version_without_a_feed_deletes_and_inserts(tmp_path: Path) -> None:
    write_log(tmp_path, VERSIONS)
    changes = planned(tmp_path, 0, 4)
    assert changes._compared_versions == {1}
    assert not changes._only_adds
    assert planned(tmp_path, 3, 3)._only_adds


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-parquet-sidecars"])
def test_removed_files_of_earlier_versions_are_found_in_a_checkpoint(tmp_path: Path, style: Any) -> None:
    log = write_log(tmp_path, VERSIONS)
    write_checkpoint(log, 3, style, [protocol(), metadata(), *(add(name, size=ord(name)) for name in "cde")])
    for version in range(4):
        (log / commit_file(version)).unlink()
    assert rows(planned(tmp_path, 4, 4)) == [(4, "delete", "e", None), (4, "insert", "f", 60)]


def test_removed_files_are_found_in_a_checkpoint_with_a_part_without_adds(tmp_path: Path) -> None:
    log = write_log(tmp_path, VERSIONS)
    files = [action for name in "cde" for action in (add(name, size=ord(name)), remove(f"gone-{name}"))]
    for part in write_checkpoint(log, 3, "multipart", [protocol(), metadata(), *files]):
        actions = pq.read_table(part)
        if actions["add"].null_count == len(actions):
            pq.write_table(actions.drop_columns("add"), part)
    for version in range(4):
        (log / commit_file(version)).unlink()
    assert rows(planned(tmp_path, 4, 4)) == [(4, "delete", "e", None), (4, "insert", "f", 60)]


def test_without_the_version_before_its_live_files_are_those_of_the_first_without_its_changes(tmp_path: Path) -> None:
    by_day, day = metadata(partitionColumns=["id"]), {"id": "1"}
    old, new, gone = (add(name, partitionValues=day) for name in ("old", "new", "gone"))
    log = write_log(
        tmp_path,
        {
            4: [new, remove("first", partitionValues=day)],
            5: [old, new, remove("gone", partitionValues=None), remove("never")],
            6: [add("first", partitionValues=day)],
        },
    )
    write_checkpoint(log, 4, "classic", [protocol(), by_day, old, new, gone, remove("first")])
    changes = planned(tmp_path, 4, 6)
    assert [(each.version, each.change, each.path) for each in changes.rows] == [
        (4, "insert", "new"),
        (4, "delete", "first"),
        (5, "delete", "gone"),
        (6, "insert", "first"),
    ]
    assert changes.rows[2].partition_values == day


def test_removed_files_of_a_checkpoint_in_json_need_spark(tmp_path: Path) -> None:
    log = write_log(tmp_path, VERSIONS)
    write_checkpoint(log, 3, "v2-json", [protocol(), metadata(), *(add(name, size=ord(name)) for name in "cde")])
    for version in range(4):
        (log / commit_file(version)).unlink()
    with pytest.raises(SparkRequiredError):
        planned(tmp_path, 4, 4)


def test_commit_that_the_log_lost_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path, VERSIONS)
    write_checkpoint(log, 3, "classic", [protocol(), metadata()])
    (log / commit_file(3)).unlink()
    with pytest.raises(RowChangesError, match="the log no longer has its commit") as raised:
        planned(tmp_path, 2, 4)
    assert raised.value.version == 3


def test_removes_are_changes_only_if_the_metadata_before_them_is_known(tmp_path: Path) -> None:
    log = write_log(tmp_path, VERSIONS)
    write_checkpoint(log, 4, "classic", [protocol(), metadata(configuration=FEED), add("f")])
    for version in range(4):
        (log / commit_file(version)).unlink()
    with pytest.raises(RowChangesError, match="the log no longer has the schema before it"):
        planned(tmp_path, 4, 4)
    with pytest.raises(VersionNotFoundError):
        planned(tmp_path, 3, 5)
    write_log(tmp_path / "copy", VERSIONS)
    copy = log_without_spark(TableLog.for_path(tmp_path / "copy")).get_snapshot_at(3)
    known = planned(tmp_path, 4, 4, before=copy.versions.version)
    assert known.versions[4].metadata_before == copy.metadata
    assert rows(known) == [(4, "delete", "e", None), (4, "insert", "f", 60)]


@pytest.mark.parametrize("values", [None, {}], ids=["omitted", "empty"])
def test_partition_values_of_removed_files_are_required(tmp_path: Path, values: dict[str, str] | None) -> None:
    by_day, gone = metadata(partitionColumns=["id"]), remove("id=1/a", partitionValues=values)
    log = write_log(tmp_path, {0: [protocol(), by_day], 1: [gone], 2: [add("b", partitionValues={"id": "1"})]})
    write_checkpoint(log, 0, "classic", [protocol(), by_day])
    assert rows(planned(tmp_path, 1, 2)) == [(2, "insert", "b", 1)]
    (log / commit_file(0)).unlink()
    for file in log.glob("*.parquet"):
        file.unlink()
    write_checkpoint(log, 1, "classic", [protocol(), by_day])
    with pytest.raises(RowChangesError, match="expected the partition values of the removed file id=1/a"):
        planned(tmp_path, 1, 1)


def test_partition_values_of_change_data_are_required(tmp_path: Path) -> None:
    by_day = metadata(partitionColumns=["id"], configuration=FEED)
    change_data = {"cdc": {"path": "_change_data/1", "size": 7, "dataChange": False}}
    write_log(tmp_path, {0: [protocol(), by_day], 1: [change_data], 2: [add("a", partitionValues={"id": "1"})]})
    assert rows(planned(tmp_path, 2, 2)) == [(2, "insert", "a", 1)]
    with pytest.raises(
        RowChangesError, match="expected the partition values of the file of change data _change_data/1"
    ):
        planned(tmp_path, 1, 2)


def test_invalid_change_data_is_named_by_file_and_line(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(configuration=FEED)], 1: [add("a"), {"cdc": {"path": 3}}]})
    with pytest.raises(CorruptLogError, match="path") as raised:
        planned(tmp_path, 1, 1)
    assert (raised.value.path.rpartition("/")[2], raised.value.line) == (commit_file(1), 2)


def test_schema_before_the_first_version_counts_only_if_that_version_deletes_rows(tmp_path: Path) -> None:
    other = metadata(schemaString=schema(field("id", "string")))
    actions = {0: [protocol(), metadata(), add("a")], 1: [other, add("b")], 2: [remove("b")], 3: [remove("a")]}
    write_log(tmp_path, actions)
    assert rows(planned(tmp_path, 1, 2)) == [(1, "insert", "b", 1), (2, "delete", "b", None)]
    with pytest.raises(RowChangesError, match="id"):
        planned(tmp_path, 0, 1)
    write_log(tmp_path, {1: [other, add("b"), remove("a")]})
    with pytest.raises(RowChangesError, match="id"):
        planned(tmp_path, 1, 2)
    assert rows(planned(tmp_path, 2, 2)) == [(2, "delete", "b", None)]


def test_version_without_metadata_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), add("a")]})
    with pytest.raises(ActionNotFoundError, match="metadata"):
        planned(tmp_path, 0, 0)


def test_columns_of_a_key_are_found_by_name(tmp_path: Path) -> None:
    write_log(tmp_path, VERSIONS)
    changes = planned(tmp_path, 3, 3)
    assert changes._key("ID") == changes._key(["id"]) == [("id",)]
    with pytest.raises(ValueError, match=r"no column 'nope'; it has id"):
        changes.to_df({"key": ["id", "nope"]})
    with pytest.raises(ValueError, match="found none"):
        changes.to_df({"key": []})


def test_key_may_be_a_field_of_a_struct_or_have_a_quoted_name(tmp_path: Path) -> None:
    struct = {"type": "struct", "fields": [field("c,d")]}
    write_log(tmp_path, {0: [protocol(), metadata(schemaString=schema(field("a", struct), field("b`,c"))), add("f")]})
    assert planned(tmp_path, 0, 0)._key(["a.`c,d`", "`b``,c`"]) == [("a", "c,d"), ("b`,c",)]


def test_columns_of_row_changes_follow_those_of_the_table(tmp_path: Path) -> None:
    write_log(tmp_path, VERSIONS)
    changes = planned(tmp_path, 3, 4)
    extra = ["_change_type", "_commit_version", "_commit_timestamp"]
    assert _result_schema(changes.table).names == ["id", *extra]
    table = _with_fields(changes._partitioned_by(("id",), version=7), *_CHANGE_FIELDS[:1])
    assert table.schema.names == ["id", "_change_type"]
    assert (table.version, table.metadata.partition_columns, table.table_path) == (7, ("id",), changes.table.table_path)
    assert [each.dataType.simpleString() for each in _CHANGE_FIELDS] == ["string", "bigint", "timestamp"]


def test_changed_files_are_tagged_with_their_change_version_and_time(tmp_path: Path) -> None:
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
    write_log(tmp_path, {**VERSIONS, 3: [add("e", size=50, modificationTime=9, deletionVector=vector)]})
    write_log(tmp_path, {4: [remove("c")], 5: []})
    changes = planned(tmp_path, 1, 4)
    files = Copies()
    changes = replace(changes, table=replace(changes.table, spark_files=files))
    plain = [each for each in changes.rows if each.version != 3]
    found = changes._data_files(changes.table, plain)
    assert [each.tags for each in found] == [(0, 1, mtime_of(1)), (1, 1, mtime_of(1)), (0, 4, mtime_of(4))]
    assert [each.url.rpartition("/")[2] for each in found] == ["a", "c", "c"]
    assert [(each.size, each.modification_time) for each in files.asked][1] == (30, FIRST_COMMIT_MS)
    assert [_file(each)["deletionVector"] for each in changes.rows if each.version == 3] == [vector]
