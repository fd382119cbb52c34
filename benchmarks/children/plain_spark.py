"""Plain PySpark as in its documentation: a local session, then a minimal query."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.children.reporting import arguments, report


def main() -> None:
    """Report `session` and `result` when each is ready."""
    spark = SparkSession.builder.master(arguments()["master"]).getOrCreate()
    report("session")
    spark.range(1).count()
    report("result")


if __name__ == "__main__":
    main()
