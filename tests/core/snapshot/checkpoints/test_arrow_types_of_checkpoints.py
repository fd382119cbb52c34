"""Checkpoints whose writer stored an Arrow schema, such as one with views of texts: the Parquet types count."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions, TableLog
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.driver.full_actions import live_adds
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, put_arrow_types, put_parsed_statistics, write_checkpoint
from tests.conftest import FixedClock
from tests.oracle import comparable
from tests.thorough import one_in
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import Snapshot

TYPES = {
    "views": (pa.string_view(), pa.list_view),
    "views of bytes": (pa.binary_view(), pa.large_list_view),
    "large": (pa.large_string(), pa.large_list),
    "large bytes": (pa.large_binary(), pa.large_list),
    "dictionaries": (pa.dictionary(pa.int32(), pa.string()), pa.list_),
}
FILES = [
    add("a", size=3, stats='{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":2}}', tags={"t": "x"}),
    add(
        "b",
        size=4,
        partitionValues={"p": "x"},
        deletionVector={"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 4,
                        "cardinality": 1},
    ),
]  # fmt: skip
ACTIONS = [
    protocol(3, 7, readerFeatures=["deletionVectors", "v2Checkpoint"],
             writerFeatures=["deletionVectors", "v2Checkpoint", "domainMetadata"]),
    metadata(configuration={"delta.checkpointPolicy": "v2"}),
    {"txn": {"appId": "app", "version": 7}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    *FILES,
    remove("c", size=5),
]  # fmt: skip


def put_types(file: Path, kind: str) -> None:
    """Write the columns of a checkpoint in Arrow types. pyarrow 21 reads views of lists, but does not write them."""
    try:
        put_arrow_types(file, *TYPES[kind])
    except pa.ArrowNotImplementedError as error:
        if int(pa.__version__.partition(".")[0]) > 21:
            raise
        pytest.skip(f"pyarrow {pa.__version__}: {error}")


def write_table(table: Path, style: CheckpointStyle, kind: str) -> None:
    """Write a checkpoint in Arrow types, without earlier commits, and a commit."""
    log = write_log(table, {0: ACTIONS, 1: [remove("a"), add("d", size=6)]})
    write_checkpoint(log, 0, style, ACTIONS)
    for file in (*log.glob("*/*.parquet"), *log.glob("*.parquet")):
        put_types(file, kind)
    (log / file_names.commit_file(0)).unlink()


def facts(snapshot: Snapshot) -> dict[str, Any]:
    state = snapshot.computed_state
    return {
        "protocol": snapshot.protocol.to_json(),
        "metadata": snapshot.metadata.to_json(),
        "transactions": snapshot.transactions,
        "domains": list(snapshot.domain_metadata),
        "files": (state.num_of_files, state.size_in_bytes),
    }


EXPECTED = {
    "protocol": ACTIONS[0]["protocol"],
    "metadata": ACTIONS[1]["metaData"],
    "transactions": {"app": 7},
    "domains": ["d"],
    "files": (2, 10),
}
LIVE = comparable([FILES[1], add("d", size=6)])


FORMS: list[tuple[str, CheckpointStyle]] = [("views", "classic"), *((kind, "v2-parquet-sidecars") for kind in TYPES)]


def driver_rows(table: TableLog, version: int) -> list[dict[str, Any]]:
    """Return the live files as the driver reads them."""
    snapshot = log_without_spark(table).get_snapshot_at(version)
    found = live_adds(table.store, snapshot.log.replayable, table.log_path)
    rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
    return rows


@pytest.mark.parametrize(("kind", "style"), FORMS)
def test_driver_reads_a_checkpoint_in_any_arrow_types(kind: str, style: CheckpointStyle, tmp_path: Path) -> None:
    write_table(tmp_path, style, kind)
    table = TableLog.for_path(tmp_path, clock=FixedClock())
    assert facts(log_without_spark(table).get_snapshot_at(1)) == EXPECTED
    assert comparable([{"add": row} for row in driver_rows(table, 1)]) == LIVE
    assert table.condition().mark == "ok"


@pytest.mark.spark
@pytest.mark.parametrize("form", one_in(3, FORMS))
def test_spark_reads_the_same_file_actions_from_a_checkpoint_in_any_arrow_types(
    spark: SparkSession, form: tuple[str, CheckpointStyle], tmp_path: Path
) -> None:
    kind, style = form
    write_table(tmp_path, style, kind)
    options = SnapshotOptions(engine="spark", check_pages=True)
    snapshot = DeltaLog.for_table(spark, tmp_path, clock=FixedClock(), options=options).get_snapshot_at(1)
    rows = [{"add": row} for row in snapshot.all_files.toArrow().to_pylist(maps_as_pydicts="strict")]
    assert comparable(rows) == LIVE
    DeltaLog.clear_cache()


def write_statistics(table: Path, kind: str) -> None:
    """Write a checkpoint with statistics as a struct, in Arrow types."""
    schema = '{"type":"struct","fields":[{"name":"s","type":"string","nullable":true,"metadata":{}}]}'
    actions = [protocol(), metadata(schemaString=schema), add("a"), add("b")]
    log = write_log(table, {0: actions})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    bounds = pa.struct([("s", pa.string())])
    struct = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])
    values = [{"numRecords": 5, "minValues": {"s": text}, "maxValues": {"s": text}} for text in ("x", "y")]
    put_parsed_statistics(file, pa.array([None, None, *values], struct), keep_json=False)
    put_types(file, kind)
    (log / file_names.commit_file(0)).unlink()


@pytest.mark.parametrize("kind", TYPES)
def test_driver_counts_files_with_statistics_as_a_struct_in_any_arrow_types(kind: str, tmp_path: Path) -> None:
    write_statistics(tmp_path, kind)
    log = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock()))
    assert log.get_snapshot_at(0).computed_state.num_of_files == 2


@pytest.mark.spark
@pytest.mark.parametrize("kind", one_in(3, TYPES))
def test_spark_skips_by_structs_of_any_arrow_types(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    write_statistics(tmp_path, kind)
    options = SnapshotOptions(engine="spark")
    snapshot = DeltaLog.for_table(spark, tmp_path, clock=FixedClock(), options=options).get_snapshot_at(0)
    assert snapshot.computed_state.num_of_files == 2
    assert [row.path for row in snapshot.scan("s = 'y'").files.collect()] == ["b"]
    DeltaLog.clear_cache()


@pytest.mark.parametrize("mode", ["EXCEPTION", "LEGACY"])
def test_old_dates_in_statistics_do_not_depend_on_the_session(spark: SparkSession, mode: str, tmp_path: Path) -> None:
    schema = '{"type":"struct","fields":[{"name":"d","type":"date","nullable":true,"metadata":{}}]}'
    actions = [protocol(), metadata(schemaString=schema), add("a")]
    log = write_log(tmp_path, {0: actions})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    bounds = pa.struct([("d", pa.date32())])
    values = {"numRecords": 1, "minValues": {"d": date(1500, 1, 1)}, "maxValues": {"d": date(1500, 1, 1)}}
    struct = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])
    put_parsed_statistics(file, pa.array([None, None, values], struct), keep_json=False)
    name = "spark.sql.parquet.datetimeRebaseModeInRead"
    spark.conf.set(name, mode)
    try:
        (row,) = DeltaLog.for_table(spark, tmp_path, clock=FixedClock()).snapshot.all_files.collect()
    finally:
        spark.conf.unset(name)
    assert json.loads(row.stats)["minValues"] == {"d": "1500-01-01"}
    DeltaLog.clear_cache()


@pytest.mark.spark
@pytest.mark.parametrize(("policy", "zone"), [("CORRECTED", "UTC"), ("LEGACY", "America/New_York")])
def test_times_in_statistics_ignore_the_session(spark: SparkSession, policy: str, zone: str, tmp_path: Path) -> None:
    schema = '{"type":"struct","fields":[{"name":"at","type":"timestamp","nullable":true,"metadata":{}}]}'
    actions = [protocol(), metadata(schemaString=schema), add("a")]
    log = write_log(tmp_path, {0: actions})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    struct = pa.struct([("minValues", pa.struct([("at", pa.timestamp("us", "UTC"))]))])
    bound = datetime(1500, 3, 1, 12, 0, 0, 123_456, UTC)
    put_parsed_statistics(file, pa.array([None, None, {"minValues": {"at": bound}}], struct), keep_json=False)
    settings = {"spark.sql.legacy.timeParserPolicy": policy, "spark.sql.session.timeZone": zone}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        (row,) = DeltaLog.for_table(spark, tmp_path, clock=FixedClock()).snapshot.all_files.collect()
    finally:
        for name, kept in before.items():
            spark.conf.unset(name) if kept is None else spark.conf.set(name, kept)
    assert json.loads(row.stats)["minValues"] == {"at": "1500-03-01T12:00:00.123Z"}
    DeltaLog.clear_cache()


def test_arrow_schema_that_cannot_be_parsed_is_ignored(tmp_path: Path) -> None:
    write_table(tmp_path, "classic", "views")
    (file,) = tmp_path.rglob("*.parquet")
    schema = pq.read_metadata(file).metadata[b"ARROW:schema"]
    file.write_bytes(file.read_bytes().replace(schema, b"A" * len(schema)))
    with pytest.raises(pa.ArrowException):
        pq.read_metadata(file)
    log = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock()))
    assert facts(log.get_snapshot_at(1)) == EXPECTED
