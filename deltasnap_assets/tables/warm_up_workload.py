"""The warm-up workload of a new Spark session: it runs the queries that a first run needs.

As a program (`python -m deltasnap_assets.tables.warm_up_workload ROUNDS`) it reads the settings of the session as one
JSON object from stdin.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from deltasnap_assets.spark.java import use_java
from deltasnap_core import LOG_FOLDER, DeltaLog, SnapshotOptions, SnapshotStore, checkpoint_file, commit_file

_CHECKPOINT = 2
_LAST = 5
_SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_METADATA = {
    "id": "warm-up",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(_SCHEMA),
    "partitionColumns": [],
    "configuration": {},
}


def exercise(spark: SparkSession) -> int:
    """Load and store the versions of a small table, as a run does. Return the number of its files."""
    with tempfile.TemporaryDirectory(prefix="deltasnap-warm-up-") as folder:
        table = Path(folder, "table")
        write_table(table)
        # By default, the driver would handle a table this small.
        log = DeltaLog.for_table(spark, str(table), options=SnapshotOptions(engine="spark"))
        snapshot = log.snapshot
        files = snapshot.computed_state.num_of_files
        for rows in (snapshot.all_files, snapshot.tombstones, snapshot.state):
            rows.collect()
        store = SnapshotStore.open(spark, str(Path(folder, "store")), engine="spark")
        store.write_range("table", log, _CHECKPOINT, _LAST - 1, materialize_as="table")
        store.file_breakdown("table", _LAST - 1)  # counted, and updated by the next version
        store.write_range("table", log, _LAST, _LAST)
        store.file_breakdown("table", _LAST)
        return files


def write_table(table: Path) -> None:
    """Write a log of a few commits and a checkpoint."""
    log = table / LOG_FOLDER
    log.mkdir(parents=True)
    for version in range(_LAST + 1):
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE", "timestamp": version}}]
        if version == 0:
            actions += [{"protocol": _PROTOCOL}, {"metaData": _METADATA}]
        actions += [{"add": _add(version, number)} for number in range(4)]
        if version > _CHECKPOINT:
            removed = {"path": _path(version - 1, 0), "deletionTimestamp": 1 << 50, "dataChange": True}
            actions += [{"remove": removed}]
        (log / commit_file(version)).write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    rows: list[dict[str, Any]] = [{"protocol": _PROTOCOL}, {"metaData": {**_METADATA, "configuration": None}}]
    rows += [{"add": _add(version, number)} for version in range(_CHECKPOINT + 1) for number in range(4)]
    pq.write_table(pa.Table.from_pylist(rows, _CHECKPOINT_SCHEMA), log / checkpoint_file(_CHECKPOINT))


def _path(version: int, number: int) -> str:
    return f"part-{version}-{number}.parquet"


def _add(version: int, number: int) -> dict[str, Any]:
    return {
        "path": _path(version, number),
        "partitionValues": {},
        "size": 1000 + number,
        "modificationTime": version,
        "dataChange": True,
        "stats": '{"numRecords":10}',
    }


_TEXTS = pa.map_(pa.string(), pa.string())
_CHECKPOINT_SCHEMA = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
    }
)


def main() -> None:
    """Run the workload ROUNDS times, in a session with the settings from stdin."""
    warnings.simplefilter("ignore")
    config = json.load(sys.stdin)
    if "spark.remote" not in config:
        use_java()
    spark = SparkSession.builder.config(map=config).getOrCreate()
    for _ in range(int(sys.argv[1])):
        start = time.perf_counter()
        files = exercise(spark)
        print(f"{files} files, {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
