"""Mutation tests: `python -m tests.mutate [MODULE...] [--sample N] [--seed S] [--coverage FOLDER] [--all] [--list]`.

Changes one thing in the code at a time, runs the quick tests (not `spark`, `slow` or `thorough`) that run the changed
lines, and prints the changes that no test detects (survivors), with the line before and after.

    python -m tests.mutate --sample 40 --seed 7              40 random mutants of both packages
    python -m tests.mutate scan/skipping settings/discovery  every mutant of a folder and a module
    python -m tests.mutate store --list                      the mutants of a folder, without running a test

MODULE is a folder or a module, from the root or within a package; by default both packages. First, all quick tests run
once to record which test runs which line. `--coverage FOLDER` keeps the record there, and uses the one that is there.
`--all` also runs slow tests and those with Spark that run the changed lines, up to a minute and a half of them. For it,
all standard tests run once. Works in copies.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.conftest import golden_folder
from tests.mutate.line_tests import LineTests
from tests.mutate.mutants import Mutant, chosen_mutants, modules_of
from tests.mutate.worker import QUICK, SLOW, Worker


def main() -> None:
    """Make mutants, run the tests on each, print the survivors and how many were killed."""
    arguments = _arguments()
    chosen = list(chosen_mutants(modules_of(arguments.modules), arguments.sample, arguments.seed))
    if arguments.list:
        print(*chosen, sep="\n")
        return
    if (golden := golden_folder()) is not None:
        os.environ["DELTASNAP_GOLDEN"] = str(golden)  # beside the checkout, but not beside its copies
    with tempfile.TemporaryDirectory() as folder:
        records: Path = arguments.coverage or Path(folder, "coverage")
        tests = LineTests.recorded(records, QUICK)
        slow = LineTests.recorded(records / "slow", SLOW) if arguments.all else None
        counts, stopped = _detections(chosen, tests, slow, Path(folder), arguments.workers)
    killed = len(chosen) - counts[""]
    share = f"{killed / max(len(chosen), 1):.1%}"
    by_slow = f", {counts['slow']} of them only by slow tests" if slow else ""
    print(f"{killed} of {len(chosen)} mutants killed: {share}{by_slow}, {stopped} by a time limit")


def _arguments() -> argparse.Namespace:
    summary, _, details = str(__doc__).partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", usage=summary.split("`")[1], description=details)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("modules", nargs="*", help="folders or modules; by default both packages")
    parser.add_argument("--sample", type=int, help="how many to choose at random; by default all")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--coverage", type=Path, help="folder of the record of which test runs which line")
    parser.add_argument("--all", action="store_true", help="run slow tests, too")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants to test at once")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    return parser.parse_args()


def _detections(
    chosen: list[Mutant], tests: LineTests, slow: LineTests | None, folder: Path, number: int
) -> tuple[Counter[str], int]:
    """Print each mutant that no quick test detects. Count mutants by what does, and those that a time limit stopped."""
    seconds = {**(slow.seconds if slow else {}), **tests.seconds}
    workers = [Worker(folder / str(each), seconds) for each in range(number)]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def detected_by(mutant: Mutant) -> str:
        worker = idle.get()
        try:
            return worker.detected_by(mutant, tests.of(mutant), slow.slow_of(mutant) if slow else [])
        finally:
            idle.put(worker)

    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(number) as pool:
        running = {pool.submit(detected_by, mutant): mutant for mutant in chosen}
        for done, each in enumerate(as_completed(running), 1):
            mutant, by = running[each], each.result()
            counts[by] += 1
            if by == "slow":
                print(f"only slow tests detect, {counts[by]} of {done}: {mutant}", flush=True)
            elif not by:
                print(f"survived, {counts[by]} of {done}: {mutant}", flush=True)
    return counts, sum(worker.stopped for worker in workers)


if __name__ == "__main__":
    main()
