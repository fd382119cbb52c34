"""How long does it take from the start of a process to a first result, including Spark's start?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.logs.shape import LogShape
from benchmarks.measure import Aim, Finding, Samples, compare
from benchmarks.processes import Report, run_child
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.session_config import session_config

Reports = dict[str, Report]

_TABLE = LogShape(files=10_000, tombstones=1_000)


def run(bench: Bench) -> list[Finding]:
    """Measure processes of each kind in turn. The table is small, because only the start is measured."""
    folder, config = bench.scratch("processes"), session_config(bench.spark_settings)
    kinds: dict[str, Callable[[], Reports]] = {
        "ours": lambda: _first_result(bench, folder, config),
        "plain": lambda: run_child("plain_spark", folder / "child.log", master=bench.spark_settings.master),
    }
    rounds: dict[str, list[Reports]] = {kind: [] for kind in kinds}
    for number in range(bench.repeat + 1):
        bench.report(f"new processes, round {number}")
        for kind, start in kinds.items():
            reports = start()
            if number:
                rounds[kind].append(reports)
    ours = _seconds(rounds["ours"], "result")
    return [
        Finding(
            question="First result from a new process, embedded session",
            ours=ours,
            theirs=_seconds(rounds["plain"], "session"),
            peer="plain PySpark, session started",
            aim=Aim(0.8),
            parts=_parts(rounds["ours"]),
        ),
        Finding(
            question="The same, compared with the first result of plain PySpark",
            ours=ours,
            theirs=_seconds(rounds["plain"], "result"),
            peer="plain PySpark, range(1).count()",
        ),
    ]


def run_connect(bench: Bench) -> list[Finding]:
    """Measure the same with the Spark Connect server of `--remote`."""
    folder, config = bench.scratch("connect"), session_config(SparkSettings(remote=bench.remote))
    rounds = [_first_result(bench, folder, config) for _ in range(bench.repeat + 1)][1:]
    return [
        Finding(
            question="First result from a new process, Spark Connect",
            ours=_seconds(rounds, "result"),
            aim=Aim(3, is_ratio=False),
            parts=_parts(rounds),
        )
    ]


def _first_result(bench: Bench, folder: Path, config: dict[str, str]) -> Reports:
    engine = bench.spark_settings.engine
    table = str(bench.table(_TABLE))
    reports = run_child("first_result", folder / "child.log", table=table, engine=engine, config=config)
    found = reports["result"].values
    compare({"found": found, "made": {"version": _TABLE.last_version, "files": _TABLE.live_files}})
    return reports


def _seconds(rounds: list[Reports], name: str) -> Samples:
    return Samples(tuple(reports[name].seconds for reports in rounds))


def _parts(rounds: list[Reports]) -> dict[str, float]:
    """Return the median time from each report to the next."""
    parts = {}
    before = [0.0] * len(rounds)
    for name in rounds[0]:
        here = [reports[name].seconds for reports in rounds]
        parts[name] = median(now - then for now, then in zip(here, before, strict=True))
        before = here
    return parts
