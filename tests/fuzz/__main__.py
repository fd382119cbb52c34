"""`python -m tests.fuzz --seed 1 --count 1000 [--spark]`: each kind of wrong answer once, and how often it came."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.fuzz.judge import try_table
from tests.fuzz.questions import limited_memory

QUIET = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}


def main() -> None:
    """Try the tables of some seeds; exits with 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first table")
    parser.add_argument("--count", type=int, default=1000, help="how many tables, of one seed after another")
    parser.add_argument("--spark", action="store_true", help="ask Spark and the store too: about a second a table")
    parser.add_argument("--all", action="store_true", help="print every wrong answer, not one of each kind")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    kinds: Counter[str] = Counter()
    started = time.monotonic()
    with _session(arguments.spark) as spark, limited_memory():
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            for finding in try_table(seed, spark):
                if arguments.all or not kinds[finding.kind]:
                    print(finding, flush=True)
                kinds[finding.kind] += 1
    print(f"\n{arguments.count} tables in {time.monotonic() - started:.0f} s, {sum(kinds.values())} wrong answers:")
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")
    sys.stdout.flush()
    os._exit(1 if kinds else 0)  # a thread may still wait for a pipe


@contextlib.contextmanager
def _session(wanted: bool) -> Iterator[Any]:
    if not wanted:
        yield None
        return
    from pyspark.sql import SparkSession

    from tests.conftest import INTERPRETED, QUICK_SESSION

    spark = SparkSession.builder.master("local[2]").config(map={**QUICK_SESSION, **QUIET}).getOrCreate()
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield spark
    spark.stop()


if __name__ == "__main__":
    main()
