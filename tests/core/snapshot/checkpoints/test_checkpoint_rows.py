"""The columns of a checkpoint, and the digest that compares its file actions with those of the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.replay.spark.reading.schemas import STATE
from deltasnap_core.replay.spark.session.local_rows import local_rows
from deltasnap_core.snapshot.checkpoints.checkpoint_rows import NO_FILES, CheckpointColumns, FileDigest
from tests.builders import Action, add, metadata, protocol, remove

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
def test_checkpoint_has_the_configured_statistics(
    spark: SparkSession, configuration: dict[str, str], expected: list[str]
) -> None:
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
