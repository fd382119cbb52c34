"""`python -m tests.fuzz --seed 1 --count 1000 [--spark [sail]] [--rewrite] [--commits] [--limits]`: what is wrong."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.fuzz.damaged_logs import try_damaging
from tests.fuzz.judge import Tried, try_table
from tests.fuzz.limits import small_limits
from tests.fuzz.questions import limited_memory
from tests.fuzz.rewritten_logs import try_rewriting

LONG_RUN = {
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
}


def main() -> None:
    """Try the tables of some seeds. Exits with 1 if an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first table")
    parser.add_argument("--count", type=int, default=1000, help="how many tables, of one seed after another")
    parser.add_argument(
        "--spark", nargs="?", const="local[2]", help="ask Spark, or `sail`, and the store too: about a second a table"
    )
    parser.add_argument("--rewrite", action="store_true", help="rewrite the logs rather than damage them")
    parser.add_argument("--commits", action="store_true", help="damage commits, and decide which versions are lost")
    parser.add_argument("--limits", action="store_true", help="with small limits of memory and of jobs, by the seed")
    parser.add_argument("--all", action="store_true", help="print every wrong answer, not one of each kind")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))  # after the current table
    tally = _Tally(print_all=arguments.all)
    attempt = try_rewriting if arguments.rewrite else partial(try_table, has_small_limits=arguments.limits)
    attempt = try_damaging if arguments.commits else attempt
    with _session(arguments.spark) as spark, limited_memory():
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            if stopped:
                break
            with small_limits(seed) if arguments.limits else contextlib.nullcontext():
                tally.add(attempt(seed, spark))
    tally.print_all_kinds()
    sys.stdout.flush()
    os._exit(1 if tally.kinds else 0)  # a thread may still be blocked on a pipe


class _Tally:
    """The results of the tables so far."""

    def __init__(self, *, print_all: bool) -> None:
        self._print_all = print_all
        self._started = time.monotonic()
        self._tables = 0
        self._tried: Counter[str] = Counter()
        self._foreign: Counter[str] = Counter()
        self._wrong: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def add(self, tried: Tried) -> None:
        self._tables += 1
        self._tried.update(set(tried.kinds))
        for finding in tried.findings:
            if self._print_all or not self.kinds[finding.kind]:
                print(finding, flush=True)
            self.kinds[finding.kind] += 1
            (self._foreign if finding.is_foreign else self._wrong).update(set(tried.kinds))

    def print_all_kinds(self) -> None:
        """Print the table of faults, then the kinds of wrong answers."""
        print("\n| what was done | tables | foreign exceptions, hangs | wrong answers |\n|-|-|-|-|")
        for kind, count in self._tried.most_common():
            print(f"| {kind} | {count} | {self._foreign[kind]} | {self._wrong[kind]} |")
        seconds, peak = time.monotonic() - self._started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"\n{self._tables} tables in {seconds:.0f} s, {peak} MiB, {sum(self.kinds.values())} wrong answers:")
        for kind, count in self.kinds.most_common():
            print(f"{count:6} {kind}")


@contextlib.contextmanager
def _session(wanted: str | None) -> Iterator[Any]:
    if wanted is None:
        yield None
        return
    if wanted == "sail":
        from tests.sail_server import sail_session

        with sail_session() as session:
            yield session
        return
    from pyspark.sql import SparkSession

    from deltasnap_assets.spark.java import use_java
    from tests.conftest import QUICK_SESSION

    use_java()
    spark = SparkSession.builder.master(wanted).config(map={**QUICK_SESSION, **LONG_RUN}).getOrCreate()
    yield spark
    spark.stop()


if __name__ == "__main__":
    main()
