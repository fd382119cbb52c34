"""How much does a `.crc` file save? It gives protocol, metadata and counts without a Spark job."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from benchmarks import answers
from benchmarks.bench import OURS, PEER, Bench
from benchmarks.measure import Aim, Finding, Side, compare, time_in_turn


def run(bench: Bench) -> list[Finding]:
    """Measure a cold load, and count its Spark jobs. deltalake does not use `.crc` files and loads the table."""
    table = bench.table(bench.shape)
    spark = bench.spark
    before = spark.sparkContext.statusTracker().getJobIdsForGroup(None)
    _ask(bench, table)
    compare({"jobs": len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)), "jobs before": len(before)})
    times = time_in_turn(
        {
            OURS: Side(run=lambda: _ask(bench, table), answer=lambda found: found),
            PEER: Side(run=lambda: DeltaTable(table), answer=_their_answer),
        },
        max(bench.repeat, 5),
    )
    return [
        Finding(
            question="Protocol, metadata and counts with a .crc file, cold",
            ours=times[OURS].scaled(1000),
            theirs=times[PEER].scaled(1000),
            unit="ms",
            peer="deltalake load",
            aim=Aim(50, is_ratio=False),
            note="no Spark job",
        )
    ]


def _ask(bench: Bench, table: Path) -> tuple[object, ...]:
    snapshot = bench.cold_log(table).update()
    protocol, metadata = snapshot.protocol, snapshot.metadata
    return (protocol.min_reader_version, metadata.id, snapshot.version, snapshot.num_of_files, snapshot.size_in_bytes)


def _their_answer(table: DeltaTable) -> tuple[object, ...]:
    found = answers.theirs(table)
    reader_version, table_id = table.protocol().min_reader_version, table.metadata().id
    return (reader_version, table_id, found.version, found.files, found.size_in_bytes)
