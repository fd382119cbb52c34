"""The files that some partition values leave, without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from deltasnap_core import TableLog
from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.partition_texts import PartitionTexts
from deltasnap_core.protocol import file_names
from deltasnap_core.replay import chosen_adds as module
from deltasnap_core.replay.chosen_adds import ADDS, chosen_adds
from deltasnap_core.replay.driver.whole_actions import UnusualError
from tests.builders import Action, add, metadata, protocol, remove, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint
from tests.conftest import FixedClock
from tests.core.replay.driver.test_held_files import PROPERTY, with_damaged_paths
from tests.oracle import replay
from tests.random_logs import RandomLog, random_logs, write
from tests.without_spark import log_without_spark

EVERY_FIELD = ADDS.names


def chosen(
    table: Path, *values: str | None, version: int | None = None, fields: Collection[str] = EVERY_FIELD
) -> pa.Table | None:
    """Give the files of a version whose partition value is one of these; None: they are Spark's to find."""
    path = TableLog.for_path(table)
    log = log_without_spark(path, clock=FixedClock())
    snapshot = log.update() if version is None else log.get_snapshot_at(version)
    with suppress(UnusualError):
        return chosen_adds(
            path.store,
            snapshot.log.replayable,
            snapshot.path,
            partitions=["p"],
            accepting=lambda texts: [text for text in texts if text[0] in values],
            fields=list(fields),
        )
    return None


def paths(found: pa.Table | None) -> list[str]:
    assert found is not None
    return sorted(found["path"].to_pylist())


def of(value: str | None, path: str, **fields: Any) -> Action:
    return add(path, partitionValues={"p": value}, **fields)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A checkpoint with files of a and b, and commits after it."""
    first = [protocol(), metadata(partitionColumns=["p"]), of("a", "one"), of("b", "two"), of("a", "three")]
    write_log(tmp_path, {0: first, 1: [remove("one"), of("a", "four"), of("b", "five")], 2: [of("b", "three")]})
    write_checkpoint(tmp_path / file_names.LOG_FOLDER, 0, "classic", first)
    return tmp_path


def checkpoint_of(table: Path) -> Path:
    (path,) = (table / file_names.LOG_FOLDER).glob("*.parquet")
    return path


@PROPERTY
@given(made=random_logs())
def test_files_found_are_those_of_the_oracle(made: RandomLog) -> None:
    states = replay(made.commits)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), made, states)
        for version in made.versions:
            found = chosen(Path(folder), "a b", "", version=version)
            wanted = [
                file for file in states[version].files.values() if file["partitionValues"].get("p") in ("a b", "")
            ]
            if found is not None:  # a checkpoint in JSON is Spark's to read
                assert sorted(map(said, found.to_pylist(maps_as_pydicts="strict"))) == sorted(map(said, wanted))


def said(file: dict[str, Any]) -> str:
    """What an action says; the path of another file system aside, which is made canonical."""
    vector = file.get("deletionVector") or {}
    known = {name: value for name, value in file.items() if value is not None and name != "deletionVector"}
    return repr(sorted(known.items())) + repr(
        sorted((name, value) for name, value in vector.items() if value is not None)
    )


def test_newer_actions_count_wherever_their_partition_is(table: Path) -> None:
    assert paths(chosen(table, "a")) == ["four"]
    assert paths(chosen(table, "b")) == ["five", "three", "two"]
    assert paths(chosen(table, "a", version=0)) == ["one", "three"]
    assert paths(chosen(table, "c")) == []


def test_only_the_fields_asked_for_are_read(table: Path) -> None:
    found = chosen(table, "b", fields=["size"], version=0)
    assert found is not None
    (row,) = found.to_pylist()
    assert (row["path"], row["size"], row["modificationTime"], row["partitionValues"]) == ("two", 1, None, None)


def test_each_partition_value_is_judged_once(table: Path) -> None:
    judged: list[PartitionTexts] = []
    log = log_without_spark(TableLog.for_path(table), clock=FixedClock()).update()
    store = TableLog.for_path(table).store

    def accepting(texts: Collection[PartitionTexts]) -> Collection[PartitionTexts]:
        judged.extend(texts)
        return []

    _ = chosen_adds(store, log.log.replayable, log.path, partitions=["p"], accepting=accepting, fields=[])
    assert sorted(judged, key=repr) == [("a",), ("b",), (None,)]  # null: of the actions that are no files


def test_values_that_cannot_be_judged_are_left_to_spark(table: Path) -> None:
    log = log_without_spark(TableLog.for_path(table), clock=FixedClock()).update()
    store = TableLog.for_path(table).store
    with pytest.raises(UnusualError):
        chosen_adds(store, log.log.replayable, log.path, partitions=["p"], accepting=lambda _: None, fields=[])


@pytest.mark.parametrize("limit", ["MOST_CHOSEN", "MOST_PARTITIONS", "MOST_CHOSEN_BYTES"])
def test_too_much_is_left_to_spark(table: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(module, limit, 1)
    assert chosen(table, "a", "b") is None


def test_values_that_are_no_texts_are_left_to_spark(tmp_path: Path) -> None:
    number: Any = 7
    write_log(tmp_path, {0: [protocol(), metadata(partitionColumns=["p"]), of(number, "one")]})
    assert chosen(tmp_path, "7") is None


def test_column_of_another_type_is_left_to_spark(table: Path) -> None:
    path = checkpoint_of(table)
    rows = pq.read_table(path)
    adds = rows["add"].combine_chunks()
    names = [field.name for field in adds.type]
    fields = [adds.field(name) if name != "dataChange" else pa.array(["yes"] * len(adds)) for name in names]
    changed = pa.StructArray.from_arrays(fields, names=names, mask=adds.is_null())
    pq.write_table(rows.set_column(rows.column_names.index("add"), "add", changed), path)
    assert chosen(table, "b", fields=["size"]) is not None
    assert chosen(table, "b") is None


def test_statistics_that_are_a_struct_only_are_left_to_spark(table: Path) -> None:
    path = checkpoint_of(table)
    count = pq.read_metadata(path).num_rows
    put_parsed_statistics(path, pa.array([{"numRecords": 1}] * count), keep_json=False)
    assert chosen(table, "b", fields=["size"]) is not None
    assert chosen(table, "b", fields=["stats"]) is None


def test_absolute_path_is_made_canonical(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(partitionColumns=["p"]), of("a", "file:///else/f")]})
    assert paths(chosen(tmp_path, "a")) == ["file:/else/f"]


def test_damaged_page_is_an_error_that_names_the_file(table: Path) -> None:
    with pytest.raises(CorruptLogError, match=with_damaged_paths(table).name):
        chosen(table, "b")
