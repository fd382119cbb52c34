"""How long does it take to plan a scan of one partition, and to read the rows of a version?"""

from __future__ import annotations

import binascii
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from benchmarks.bench import OURS, Bench
from benchmarks.measure import WARM_UPS, Aim, Finding, Side, time_in_turn
from deltasnap_core import DeltaLog, Snapshot, TableLog

OTHER = "other"
FILES, ROWS_A_FILE, DELETED_A_FILE = 1_000, 20_000, 200
ROWS_A_NUMBER = 10_000
"""The distance between the ids of consecutive files of a generated log."""


def run(bench: Bench) -> list[Finding]:
    """Measure planning compared with the computed state, and rows compared with Spark's reader on the same files."""
    return [
        *planning(bench),
        *(by_statistics(bench, parsed=parsed) for parsed in (False, True)),
        rows(bench, vectors=False),
        rows(bench, vectors=True),
        rows_where(bench, "id", "an integer column with a pushed-down filter"),
        rows_where(bench, "level", "a double column filtered after reading"),
    ]


def planning(bench: Bench) -> list[Finding]:
    """Measure a scan of one partition, cold and with a known computed state, compared with the computed state."""
    table = bench.table(bench.shape)
    where = f"{partition_column(table)} = '{a_partition(bench, table)}'"

    def cold() -> Snapshot:
        return bench.cold_log(table).update()

    loaded: list[Snapshot] = []

    def load() -> None:
        if not loaded:
            loaded.append(cold())
            _ = loaded[0].computed_state

    theirs = Side(prepare=DeltaLog.clear_cache, run=lambda: cold().computed_state)
    times = time_in_turn(
        {OURS: Side(prepare=DeltaLog.clear_cache, run=lambda: cold().scan(where).report), OTHER: theirs},
        bench.repeat,
        warm_ups=WARM_UPS,
    )
    again = time_in_turn({OURS: Side(prepare=load, run=lambda: loaded[0].scan(where).report)}, bench.repeat, warm_ups=3)
    peer = "cold computed state"
    return [
        Finding(
            question="Plan a scan of one partition, cold",
            ours=times[OURS],
            theirs=times[OTHER],
            peer=peer,
            aim=Aim(1.3),
        ),
        Finding(
            question="Plan a scan of one partition, on a loaded snapshot",
            ours=again[OURS],
            theirs=times[OTHER],
            peer=peer,
            aim=Aim(0.5),
        ),
    ]


def by_statistics(bench: Bench, *, parsed: bool) -> Finding:
    """Measure a cold scan of a hundredth of a column's values, with statistics as JSON or as structs."""
    table = bench.table(replace(bench.shape, parsed_stats=parsed))
    first = bench.files // 2 * ROWS_A_NUMBER
    where = f"id between {first} and {first + bench.files // 100 * ROWS_A_NUMBER}"

    def cold() -> Snapshot:
        return bench.cold_log(table).update()

    times = time_in_turn(
        {
            OURS: Side(prepare=DeltaLog.clear_cache, run=lambda: cold().scan(where).report),
            OTHER: Side(prepare=DeltaLog.clear_cache, run=lambda: cold().computed_state),
        },
        bench.repeat,
        warm_ups=3,
    )
    return Finding(
        question=f"Plan a scan of 1 % of a column's values, cold, {'struct' if parsed else 'JSON'} statistics",
        ours=times[OURS],
        theirs=times[OTHER],
        peer="cold computed state",
    )


def rows(bench: Bench, *, vectors: bool) -> Finding:
    """Measure reading all rows of a version with a thousand files, compared with Spark's reader on the same files."""
    table = rows_table(_rows_folder(bench, vectors=vectors), vectors=vectors)
    snapshot = DeltaLog.for_table(bench.spark, table, options=bench.options).update()
    paths = [str(path) for path in sorted(table.glob("*.parquet"))]
    schema = snapshot.schema

    def theirs() -> DataFrame:
        return bench.spark.read.schema(schema).parquet(*paths)

    deleted = FILES // 10 * DELETED_A_FILE if vectors else 0
    times = time_in_turn(
        {
            OURS: Side(run=_read(lambda: snapshot.scan().to_df()), answer=lambda count: count),
            OTHER: Side(run=_read(theirs), answer=lambda count: count - deleted),
        },
        bench.repeat,
        warm_ups=2,
    )
    what = ", a tenth of them with a deletion vector" if vectors else ""
    return Finding(
        question=f"Rows of a version with {FILES:,} files{what}",
        ours=times[OURS],
        theirs=times[OTHER],
        peer="spark.read.parquet of the same files",
        aim=Aim(1.5 if vectors else 1.2),
    )


def rows_where(bench: Bench, column: str, what: str) -> Finding:
    """Measure the rows of a hundredth of a sorted column without statistics in the log, and Spark's filtered reader.

    Spark pushes its own filter on doubles down into the files, which loses rows with NaN.
    """
    table = rows_table(_rows_folder(bench, vectors=False), vectors=False)
    snapshot = DeltaLog.for_table(bench.spark, table, options=bench.options).update()
    paths = [str(path) for path in sorted(table.glob("*.parquet"))]
    first = FILES // 2 * ROWS_A_FILE
    where = f"{column} between {first} and {first + FILES // 100 * ROWS_A_FILE}"
    times = time_in_turn(
        {
            OURS: Side(run=_read(lambda: snapshot.scan(where).to_df()), answer=lambda count: count),
            OTHER: Side(
                run=_read(lambda: bench.spark.read.schema(snapshot.schema).parquet(*paths).where(where)),
                answer=lambda count: count,
            ),
        },
        bench.repeat,
        warm_ups=2,
    )
    return Finding(
        question=f"Rows in 1 % of the values of {what}, {FILES:,} files",
        ours=times[OURS],
        theirs=times[OTHER],
        peer="spark.read.parquet of the same files, filtered",
    )


def _rows_folder(bench: Bench, *, vectors: bool) -> Path:
    return bench.folder / "tables" / f"rows-{FILES}-{ROWS_A_FILE}-{vectors}-level"


def _read(frame: Callable[[], DataFrame]) -> Callable[[], int]:
    """Return a function that reads every column of every row."""

    def read() -> int:
        row = frame().selectExpr("count(1) as n", "sum(id)", "sum(amount)", "max(name)", "max(at)").collect()[0]
        return int(row.n)

    return read


def partition_column(table: Path) -> str:
    """Return the first partition column of a table."""
    return TableLog.for_path(table).latest().metadata.partition_columns[0]


def a_partition(bench: Bench, table: Path) -> str:
    """Return one value of the first partition column."""
    files = bench.cold_log(table).update().all_files
    (row,) = files.selectExpr(f"max(partitionValues['{partition_column(table)}']) as value").collect()
    return str(row.value)


def rows_table(folder: Path, *, vectors: bool) -> Path:
    """Return a table of data files, generated if missing; with `vectors`, every tenth has a deletion vector."""
    if (folder / "_delta_log").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.arange(ROWS_A_FILE)
    adds = []
    vector_file = bytearray(b"\x01")
    for number in range(FILES):
        ids = numbers + number * ROWS_A_FILE
        data = pa.table(
            {
                "id": ids,
                "amount": (ids * 7919 % 100_003) / 7.0,
                "level": ids * 1.0,
                "name": pa.array([f"name {value % 1000}" for value in ids.tolist()]),
                "at": pa.array(ids * 1_000_000, pa.timestamp("us", "UTC")),
            }
        )
        path = folder / f"part-{number:05d}.parquet"
        pq.write_table(data, path)
        action = {
            "path": path.name,
            "partitionValues": {},
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
        }
        if vectors and number % 10 == 0:
            action["deletionVector"] = _append_vector(vector_file, folder / "vectors.bin")
        adds.append({"add": action})
    (folder / "vectors.bin").write_bytes(vector_file)
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (
            ("id", "long"),
            ("amount", "double"),
            ("level", "double"),
            ("name", "string"),
            ("at", "timestamp"),
        )
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    features = ["deletionVectors"]
    first = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                      "writerFeatures": features}},
        {"metaData": {"id": "rows", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                      "partitionColumns": [], "configuration": {}}},
    ]  # fmt: skip
    (folder / "_delta_log").mkdir()
    lines = "".join(json.dumps(action) + "\n" for action in [*first, *adds])
    (folder / "_delta_log" / f"{0:020d}.json").write_text(lines, encoding="utf-8")
    return folder


def _append_vector(content: bytearray, path: Path) -> dict[str, object]:
    """Append a deletion vector that deletes rows at a fixed interval to a file. Return its descriptor."""
    deleted = list(range(0, ROWS_A_FILE, ROWS_A_FILE // DELETED_A_FILE))[:DELETED_A_FILE]
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(deleted) - 1, 16) + struct.pack(f"<{len(deleted)}H", *deleted)
    vector = struct.pack("<iqI", 1681511377, 1, 0) + bitmap
    offset = len(content)
    content += struct.pack(">i", len(vector)) + vector + struct.pack(">I", binascii.crc32(vector))
    return {
        "storageType": "p",
        "pathOrInlineDv": path.as_uri(),
        "offset": offset,
        "sizeInBytes": len(vector),
        "cardinality": len(deleted),
    }
