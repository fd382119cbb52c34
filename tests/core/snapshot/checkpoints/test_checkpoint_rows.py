"""The columns of a written checkpoint, the hint that it replaces, and its comparison with the snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from deltasnap_core import FileStatus, Metadata, Protocol, TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.replay.spark.reading.schemas import STATE
from deltasnap_core.replay.spark.session.local_rows import local_rows
from deltasnap_core.snapshot.checkpoints.checkpoint_hint import write_hint
from deltasnap_core.snapshot.checkpoints.checkpoint_rows import NO_FILES, CheckpointColumns, FileDigest
from deltasnap_core.snapshot.checkpoints.checkpoint_writer import _differences, _names_any, _sidecar_action
from deltasnap_core.storage.writable_files import WritableFiles
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import Action, add, metadata, protocol, remove, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTOR = {
    "storageType": "u", "pathOrInlineDv": "p", "offset": 1, "sizeInBytes": 2, "cardinality": 3, "maxRowIndex": 4,
}  # fmt: skip
SHARED: Any = {"deletionVector": VECTOR, "baseRowId": 5, "defaultRowCommitVersion": 6}
ADD = add("a", partitionValues={"day": "1"}, tags={"t": "1"}, stats="{}", clusteringProvider="c", **SHARED)
REMOVE = remove("a", partitionValues={"day": "1"}, size=1, extendedFileMetadata=True, **SHARED)


def columns(**configuration: str) -> CheckpointColumns:
    described = metadata(configuration={f"delta.checkpoint.writeStatsAs{k}": v for k, v in configuration.items()})
    return CheckpointColumns.of(Metadata.from_json(described["metaData"]), Protocol.from_json(protocol()["protocol"]))


def frame(spark: SparkSession, *groups: list[Action]) -> DataFrame:
    """The rows of some groups: group, add, remove."""
    rows = [{"group": number, **each} for number, group in enumerate(groups) for each in group]
    return local_rows(spark, rows, StructType([StructField("group", IntegerType()), STATE["add"], STATE["remove"]]))


def digests(spark: SparkSession, *groups: list[Action], of: CheckpointColumns | None = None) -> list[FileDigest]:
    found = frame(spark, *groups).groupBy("group").agg(*(of or columns()).digest()).orderBy("group").collect()
    return [FileDigest.of(row.asDict()) for row in found]


def changed(action: Action) -> list[list[Action]]:
    """An action with one value changed: each field of it, and each of its deletion vector."""
    ((kind, values),) = action.items()
    others: list[dict[str, Any]] = [{name: other(value)} for name, value in values.items() if name != "dataChange"]
    others += [{"deletionVector": {**VECTOR, name: other(value)}} for name, value in VECTOR.items()]
    others.append({"partitionValues": {"day": None}})
    return [[{kind: {**values, **each}}] for each in others]


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}x" if isinstance(value, str) else None


def test_digest_differs_if_any_value_of_a_file_does(spark: SparkSession) -> None:
    found = digests(spark, [ADD], [REMOVE], *changed(ADD), *changed(REMOVE), [ADD, ADD], [REMOVE, REMOVE])
    assert len({(each.total, each.mixed) for each in found}) == len(found) == 36
    assert [(each.files, each.tombstones) for each in (*found[:2], *found[-2:])] == [(1, 0), (0, 1), (2, 0), (0, 2)]


def test_digest_does_not_depend_on_the_order_of_rows_or_on_what_a_checkpoint_omits(spark: SparkSession) -> None:
    one, two = {"add": {**ADD["add"], "dataChange": False}}, {"remove": {**REMOVE["remove"], "dataChange": False}}
    whole, reverse = digests(spark, [ADD, REMOVE], [two, one])
    assert whole == reverse
    other_stats = {"add": {**ADD["add"], "stats": "{ }"}}
    without = digests(spark, [ADD], [other_stats], of=columns(Json="false"))
    assert without[0] == without[1]


def test_digest_of_no_rows_counts_nothing(spark: SparkSession) -> None:
    row = frame(spark).agg(*columns().digest()).first()
    assert row is not None
    assert FileDigest.of(row.asDict()) == NO_FILES


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"Json": "true", "Struct": "false"}, ["stats"]),
        ({"Json": "false", "Struct": "true"}, ["stats_parsed"]),
        ({"Json": "false", "Struct": "false"}, []),
    ],
)
def test_checkpoint_has_set_statistics(spark: SparkSession, configuration: dict[str, str], expected: list[str]) -> None:
    found = columns(**configuration)
    rows = found.file_rows(frame(spark, [ADD]))
    assert rows.columns == ["add", "remove"]
    names = rows.schema["add"].dataType.fieldNames()  # type: ignore[attr-defined]
    assert [name for name in names if name.startswith("stats")] == expected
    assert found.keeps_records is bool(expected)


def test_checkpoint_has_the_values_of_the_log_and_changes_no_data(spark: SparkSession) -> None:
    added, removed = columns(Struct="false").file_rows(frame(spark, [ADD, REMOVE])).orderBy("remove.path").collect()
    assert (added.remove, removed.add) == (None, None)
    for found, expected in ((added.add, ADD["add"]), (removed.remove, REMOVE["remove"])):
        assert found.asDict(recursive=True) == {**expected, "dataChange": False}


def test_classic_checkpoint_has_a_row_for_each_action(spark: SparkSession) -> None:
    fields = [{"name": "day", "type": "integer", "nullable": True, "metadata": {}}]
    described = metadata(
        schemaString=json.dumps({"type": "struct", "fields": fields}),
        partitionColumns=["day"],
        configuration={"delta.checkpoint.writeStatsAsStruct": "true"},
    )
    non_file = NonFileActions(
        metadata=Metadata.from_json(described["metaData"]), protocol=Protocol.from_json(protocol()["protocol"])
    )
    assert non_file.metadata is not None
    assert non_file.protocol is not None
    partitioned = CheckpointColumns.of(non_file.metadata, non_file.protocol)
    rows = partitioned.all_rows(spark, frame(spark, [ADD, REMOVE]), non_file)
    assert rows.columns == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    found = [{name: value for name, value in row.asDict(True).items() if value is not None} for row in rows.collect()]
    assert sorted([*each] for each in found) == [["add"], ["metaData"], ["protocol"], ["remove"]]
    (added,) = (each["add"] for each in found if "add" in each)
    assert (added["path"], added["dataChange"], added["partitionValues_parsed"]) == ("a", False, {"day": 1})


SIDECARS = tuple(FileStatus(path=f"file:///t/_sidecars/{name}", size=3, modification_time=7) for name in ("a", "b.p"))


def test_each_different_field_is_named_with_its_numbers() -> None:
    other = state(num_of_files=9, metadata=None, num_of_removes=0)
    assert _differences(state(), state(), ignored=()) == []
    assert _differences(state(), other, ignored=()) == [
        "num_of_files: expected 4, found 9",
        "num_of_removes: expected 2, found 0",
        "metadata",
    ]
    assert _differences(state(), other, ignored=("metadata", "num_of_files")) == ["num_of_removes: expected 2, found 0"]


def test_sidecars_are_named_by_an_action_each() -> None:
    assert _sidecar_action(SIDECARS[1]) == {"sidecar": {"path": "b.p", "sizeInBytes": 3, "modificationTime": 7}}


def test_sidecar_is_in_use_if_a_checkpoint_names_it() -> None:
    assert _names_any(b'{"sidecar":{"path":"b.p"}}', SIDECARS)
    assert not _names_any(b'{"sidecar":{"path":"c"}}', SIDECARS[1:])
    assert not _names_any(b"b.p", ())


@pytest.mark.parametrize(
    ("hinted", "checkpoints", "is_written"),
    [
        (None, [1], True),
        ("{", [1], True),
        (0, [0, 1], True),
        (1, [1], True),
        (2, [1, 2], False),
        (0, [1, 2], False),
        (100, [1], True),
    ],
    ids=["no hint", "broken", "older", "a deleted one of this version", "newer", "newer without a hint", "rolled back"],
)
def test_a_hint_is_replaced_unless_the_log_has_a_newer_checkpoint(
    tmp_path: Path, hinted: int | str | None, checkpoints: list[int], is_written: bool
) -> None:
    log_folder = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    for version in checkpoints:
        (log_folder / file_names.checkpoint_file(version)).write_bytes(b"of this version")
    if hinted is not None:
        (log_folder / file_names.LAST_CHECKPOINT).write_text(
            hinted if isinstance(hinted, str) else json.dumps({"version": hinted, "size": 1})
        )
    log = TableLog.for_path(tmp_path)
    assert write_hint(WritableFiles(log.log_path, None), log, LastCheckpointInfo(version=1, size=3)) is is_written
    if is_written:
        found = json.loads((log_folder / file_names.LAST_CHECKPOINT).read_text())
        assert (found["version"], found["size"]) == (1, 3)


class Full(WritableFiles):
    """A storage without space."""

    def write(self, path: str, content: bytes) -> None:
        raise StorageError(path=path, reason="no space")


def test_a_hint_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()]})
    log = TableLog.for_path(tmp_path)
    assert not write_hint(Full(log.log_path, None), log, LastCheckpointInfo(version=0, size=3))
    assert "The checkpoint of version 0 is in place, but not its hint: " in caplog.text
    assert "no space" in caplog.text
