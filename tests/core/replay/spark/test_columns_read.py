"""The columns of a checkpoint that Spark reads, from the plan of the query."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark import measured_files
from deltasnap_core.replay.spark.state_deltas import counted
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.scan import scan
from deltasnap_core.scan.planning import ScanReport, condition_on_files, report_of
from deltasnap_core.scan.skipping.data_skipping import Skipping
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTOR = "deletionVector:struct<storageType:string,pathOrInlineDv:string,offset:int{}>"
ADD = f"path:string,size:bigint,{{}}{VECTOR.format(',cardinality:bigint')}"
REMOVE = f"path:string,deletionTimestamp:bigint,{VECTOR.format('')}"
JSON, STRUCT = "stats:string,", ",stats_parsed:struct<numRecords:bigint>"


def plan_of(frame: DataFrame) -> str:
    frame.sparkSession.conf.set("spark.sql.maxMetadataStringLength", "10000")
    try:
        jvm: Any = frame.sparkSession.sparkContext._jvm
        return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple"))
    finally:
        frame.sparkSession.conf.unset("spark.sql.maxMetadataStringLength")


def columns_read(plan: str) -> list[str]:
    return re.findall("ReadSchema: (.*)", plan)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("records", "fields"),
    [((7, 1), ADD.format("") + STRUCT), ((7, None), ADD.format(JSON) + STRUCT), (None, ADD.format(JSON))],
    ids=["a struct value of every file", "of one file", "no struct"],
)
def test_computed_state_reads_the_fewest_columns_of_a_checkpoint_and_shuffles_nothing(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: tuple[int | None, ...] | None,
    fields: str,
) -> None:
    actions = [protocol(), metadata(), *(add(name, stats='{"numRecords":1}') for name in "ab")]
    log = write_log(tmp_path, {0: actions, 1: [remove("a"), add("c", stats='{"numRecords":3}')]})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    if records is not None:
        structs = [None, None, *({"numRecords": number} for number in records)]
        put_parsed_statistics(file, pa.array(structs, pa.struct([("numRecords", pa.int64())])), keep_json=True)
    found: list[DataFrame] = []

    def count(rows: DataFrame, non_file: NonFileActions, retention: Retention) -> StateDelta:
        found.append(rows)
        return counted(rows, non_file, retention)

    monkeypatch.setattr(measured_files, "counted", count)
    options = SnapshotOptions(engine="spark", cache_state=False)
    state = DeltaLog.for_table(spark, tmp_path, options=options).snapshot.computed_state
    plan = plan_of(found[0])
    assert (state.num_of_files, state.num_known_records) == (2, 4)
    assert columns_read(plan) == [f"struct<add:struct<{fields}>,remove:struct<{REMOVE}>>"]
    assert "Exchange hashpartitioning" not in plan


@pytest.mark.spark
def test_scan_by_statistics_in_a_struct_reads_only_these_and_no_json(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions = [protocol(), metadata(), add("a"), add("b"), remove("old")]
    log = write_log(tmp_path, {0: actions, 1: [remove("c")]})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    bounds = [("id", pa.int64()), ("name", pa.string())]
    kinds = [(kind, pa.struct(bounds)) for kind in ("minValues", "maxValues", "nullCount")]
    values = [{"numRecords": 1, **{kind: {"id": n} for kind, _ in kinds[:2]}, "nullCount": {"id": 0}} for n in (1, 9)]
    put_parsed_statistics(
        file, pa.array([None, None, *values, None], pa.struct([("numRecords", pa.int64()), *kinds])), keep_json=True
    )
    found: list[DataFrame] = []

    def report(files: DataFrame, skipping: Skipping, totals: tuple[int, int] | None) -> ScanReport:
        found.append(files.selectExpr("size", f"{condition_on_files(skipping, parsed=True)} as is_kept"))
        return report_of(files, skipping, totals)

    monkeypatch.setattr(scan, "report_of", report)
    options = SnapshotOptions(engine="spark")
    assert (
        DeltaLog.for_table(spark, tmp_path, options=options).snapshot.scan("id < 5").report.files_after_statistics == 1
    )
    key = VECTOR.format("")
    statistics = "minValues:struct<id:bigint>,nullCount:struct<id:bigint>,numRecords:bigint"
    assert columns_read(plan_of(found[0])) == [
        f"struct<add:struct<path:string,size:bigint,{key},stats_parsed:struct<{statistics}>>,"
        f"remove:struct<path:string,{key}>>"
    ]
