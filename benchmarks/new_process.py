"""How long from the start of a process to a first result, Spark's own start included?"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.logs.shape import LogShape
from benchmarks.measure import Aim, Finding, Samples, compare
from benchmarks.processes import Report, connect_server, run_child
from deltasnap_assets.config import SparkSettings
from deltasnap_assets.session_config import session_config

_TABLE = LogShape(files=10_000, tombstones=1_000)


def run(bench: Bench) -> list[Finding]:
    """Pairs of processes, ours and plain PySpark, in turn: what starts is asked about, so the table is a small one."""
    ours, plain = [], []
    log = bench.scratch("processes") / "child.log"
    for number in range(bench.repeat + 1):
        bench.report(f"new processes, round {number}")
        pair = (_first_result(bench, log, bench.spark_settings), _plain(bench, log))
        if number:
            ours.append(pair[0])
            plain.append(pair[1])
    result = Samples(tuple(reports["result"].seconds for reports in ours))
    return [
        Finding(
            question="First result from a new process, embedded session",
            ours=result,
            theirs=Samples(tuple(reports["session"].seconds for reports in plain)),
            peer="plain PySpark, session started",
            aim=Aim(0.6),
            parts=_parts(ours),
        ),
        Finding(
            question="The same, over plain PySpark's first result",
            ours=result,
            theirs=Samples(tuple(reports["result"].seconds for reports in plain)),
            peer="plain PySpark, range(1).count()",
            parts=_parts(plain),
        ),
    ]


def run_connect(bench: Bench) -> list[Finding]:
    """The same from a Spark Connect server that is up and has answered before."""
    folder = bench.scratch("connect")
    with connect_server(folder, bench.cores) as remote:
        rounds = [
            _first_result(bench, folder / "child.log", SparkSettings(remote=remote)) for _ in range(bench.repeat + 2)
        ][2:]
    return [
        Finding(
            question="First result from a new process, Spark Connect",
            ours=Samples(tuple(reports["result"].seconds for reports in rounds)),
            aim=Aim(3, is_ratio=False),
            parts=_parts(rounds),
        )
    ]


def _first_result(bench: Bench, log: Path, spark: SparkSettings) -> dict[str, Report]:
    reports = run_child("first_result", log, table=str(bench.table(_TABLE)), config=session_config(spark))
    found = reports["result"].values
    compare({"found": found, "made": {"version": _TABLE.last_version, "files": _TABLE.live_files}})
    return reports


def _plain(bench: Bench, log: Path) -> dict[str, Report]:
    return run_child("plain_spark", log, master=bench.spark_settings.master)


def _parts(rounds: list[dict[str, Report]]) -> dict[str, float]:
    """The median time from each report to the next."""
    parts = {}
    before = [0.0] * len(rounds)
    for name in rounds[0]:
        here = [reports[name].seconds for reports in rounds]
        parts[name] = median(now - then for now, then in zip(here, before, strict=True))
        before = here
    return parts
