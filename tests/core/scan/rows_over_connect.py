"""A program that checks rows and row changes of tables over Spark Connect.

Arguments: the server, the golden folder, and a file for the failed cases, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from tests.core.scan.changes.row_changes_builders import WITH_FEED, assert_as_deltalake
from tests.core.scan.changes.row_changes_of_random_tables_builders import assert_no_row_wrong
from tests.core.scan.changing_tables import written_by_deltalake, written_by_hand
from tests.core.scan.collected_rows_builders import assert_null_variants
from tests.core.scan.golden_rows_builders import assert_rows, cases


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
    for name in WITH_FEED:
        try:
            assert_as_deltalake(spark, Path(golden), name)
        except Exception as error:  # noqa: BLE001 - the test reports any error
            wrong[f"changes of {name}"] = f"{type(error).__name__}: {error}"[:2000]
    try:
        assert_null_variants(spark)
    except Exception as error:  # noqa: BLE001 - the test reports any error
        wrong["null variants"] = f"{type(error).__name__}: {error}"[:2000]
    with TemporaryDirectory() as folder:
        for seed, written in enumerate((written_by_hand, written_by_deltalake)):
            try:
                assert_no_row_wrong(spark, written(Path(folder) / f"{seed}", seed), seed)
            except Exception as error:  # noqa: BLE001 - the test reports any error
                wrong[f"random changes {seed}"] = f"{type(error).__name__}: {error}"[:2000]
    found = {"session": type(spark).__module__, "cases": len(list(cases())), "wrong": wrong}
    Path(answers).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
