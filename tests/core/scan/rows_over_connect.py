"""A program that checks the rows of the golden tables over Spark Connect.

Arguments: the server, the golden folder, and a file for the failed cases, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.core.scan.test_golden_rows import assert_rows, cases


def main() -> None:
    """Compare every case."""
    remote, golden, answers = sys.argv[1:]
    spark = SparkSession.builder.remote(remote).getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    wrong = {}
    for case in cases():
        (expected,) = case.values
        try:
            assert_rows(spark, Path(golden), expected)
        except Exception as error:  # noqa: BLE001 - the test reports any error
            wrong[case.id] = f"{type(error).__name__}: {error}"[:2000]
    found = {"session": type(spark).__module__, "cases": len(list(cases())), "wrong": wrong}
    Path(answers).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
