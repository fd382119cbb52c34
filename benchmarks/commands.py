"""How long do commands take that people wait for: `--help`, and the history of a small table?"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.logs.small_table import write_table
from benchmarks.measure import Aim, Finding, Samples


def run(bench: Bench) -> list[Finding]:
    """Measure each command in a new process."""
    table = bench.scratch("commands") / "table"
    write_table(table)
    return [
        _command(bench, Aim(at_most=0.3, is_ratio=False), "--help"),
        _command(bench, Aim(at_most=0.8, is_ratio=False), "history", table),
    ]


def _command(bench: Bench, aim: Aim, name: str, *arguments: Path) -> Finding:
    command = [str(Path(sys.executable).with_name("deltasnap")), name, *map(str, arguments)]
    seconds = []
    for number in range(bench.repeat + 1):
        bench.report(f"deltasnap {name}, round {number}")
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    return Finding(question=f"`deltasnap {name}`, new process", ours=Samples(tuple(seconds[1:])), aim=aim)
