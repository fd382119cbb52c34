"""deltasnap with little memory: computes the state of a table and stores some versions; reports the peaks."""

from __future__ import annotations

import os
import time

from pyspark.sql import SparkSession

from benchmarks.children.reporting import arguments, process_mib, report
from deltasnap_core import DeltaLog, SnapshotStore


def main() -> None:
    """Report `done` with the result, the duration in seconds, and peaks in MiB."""
    given = arguments()
    builder = SparkSession.builder
    for key, value in given["config"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    start = time.perf_counter()
    log = DeltaLog.for_table(spark, given["table"])
    snapshot = log.update()
    files = snapshot.computed_state.num_of_files
    loaded = time.perf_counter()
    store = SnapshotStore.open(spark, given["store"])
    store.write_range("bench", log, given["first"], given["last"])
    stored_files = store.all_files("bench", given["last"]).count()
    report(
        "done",
        files=files,
        stored_files=stored_files,
        load_seconds=loaded - start,
        store_seconds=time.perf_counter() - loaded,
        python_mib=process_mib(os.getpid(), "VmHWM"),
        jvm_mib=process_mib(_jvm_pid(spark), "VmHWM"),
        heap_mib=_live_heap(spark),
    )


def _jvm_pid(spark: SparkSession) -> int:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


def _live_heap(spark: SparkSession) -> float:
    """Return the heap in use after a full collection. If this grows with a table, memory is not bounded."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.gc()
    used = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return float(used) / 2**20


if __name__ == "__main__":
    main()
