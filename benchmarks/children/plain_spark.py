"""Plain PySpark, as its documentation starts it: a local session, then the smallest of queries."""

from __future__ import annotations

from pyspark.sql import SparkSession

from benchmarks.children.said import arguments, report


def main() -> None:
    """Reports `session` and `result` as they are there."""
    spark = SparkSession.builder.master(arguments()["master"]).getOrCreate()
    report("session")
    spark.range(1).count()
    report("result")


if __name__ == "__main__":
    main()
