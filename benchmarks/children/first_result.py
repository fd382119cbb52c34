"""deltasnap in a new process: from its start to the computed state of a table."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.children.reporting import arguments, report
from deltasnap_core import DeltaLog, SnapshotOptions


def main() -> None:
    """Report `imports`, `session` and `result` when each is ready."""
    given = arguments()
    report("imports")
    builder = SparkSession.builder
    for key, value in given["config"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    report("session")
    options = SnapshotOptions(engine=given["engine"])
    snapshot = DeltaLog.for_table(spark, given["table"], options=options).update()
    report("result", version=snapshot.version, files=snapshot.computed_state.num_of_files)


if __name__ == "__main__":
    main()
