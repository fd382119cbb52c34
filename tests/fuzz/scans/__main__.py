"""`python -m tests.fuzz.scans --seed 1 --count 10000`: tries random predicates on random tables, prints failures."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from pyspark.sql import SparkSession

from deltasnap_assets.spark.java import use_java
from tests.conftest import QUICK_SESSION
from tests.fuzz.__main__ import LONG_RUN
from tests.fuzz.scans.trial import Tried, try_table


def main() -> None:
    """Try the tables of some seeds. Exits with 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.scans", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first table")
    parser.add_argument("--count", type=int, default=10_000, help="how many predicates in all")
    parser.add_argument("--predicates", type=int, default=100, help="of each table")
    parser.add_argument("--scans", type=int, default=20, help="of each table, whose rows are read")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    use_java()
    settings = {**QUICK_SESSION, **LONG_RUN}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    started, tables, tried = time.monotonic(), 0, Tried(seed=0, about=[])
    while tried.predicates < arguments.count:
        one = try_table(arguments.seed + tables, spark, predicates=arguments.predicates, scans=arguments.scans)
        tables += 1
        for text in one.wrong:
            print(text, flush=True)
        for name in ("predicates", "refused", "failing", "chances", "skipped", "scanned"):
            setattr(tried, name, getattr(tried, name) + getattr(one, name))
        tried.wrong += one.wrong
    print(
        f"{tried.predicates} predicates on {tables} tables in {time.monotonic() - started:.0f} s: "
        f"{tried.refused} have no sense, {tried.failing} fail on some row; "
        f"{tried.skipped} of {tried.chances} files without a row left out; "
        f"{tried.scanned} scans read; {len(tried.wrong)} wrong"
    )
    spark.stop()
    sys.exit(1 if tried.wrong else 0)


if __name__ == "__main__":
    main()
