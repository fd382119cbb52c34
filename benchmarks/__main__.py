"""The command: `python -m benchmarks [NAME ...] [--files N] [--commits N] [--repeat N] [--keep FOLDER]`.

`python -m benchmarks compare BASE.json NEW.json` compares two runs.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import (
    bisection,
    capacity,
    checksum,
    cold_state,
    column_totals,
    commands,
    daemon_memory,
    event_log,
    file_list,
    fleet,
    fleet_page,
    fleet_sizing,
    large_commits,
    latency,
    long_life,
    memory,
    new_process,
    one_more_version,
    scan,
    shapes,
    update,
    version_range,
    wide_table,
)
from benchmarks.bench import Bench
from benchmarks.comparison import NotComparableError, moves, read_document, show_moves
from benchmarks.measure import Finding
from benchmarks.report import markdown, show
from deltasnap_assets.settings.config import SparkSettings

BENCHMARKS: dict[str, Callable[[Bench], list[Finding]]] = {
    "cold_state": cold_state.run,
    "update": update.run,
    "version_range": version_range.run,
    "file_list": file_list.run,
    "checksum": checksum.run,
    "one_more_version": one_more_version.run,
    "memory": memory.run,
    "new_process": new_process.run,
    "connect": new_process.run_connect,
    "latency": latency.run,
    "latency_connect": latency.run_connect,
    "event_log": event_log.run,
    "fleet": fleet.run,
    "fleet_page": fleet_page.run,
    "fleet_sizing": fleet_sizing.run,
    "daemon_memory": daemon_memory.run,
    "large_commits": large_commits.run,
    "long_life": long_life.run,
    "shapes": shapes.run,
    "scan": scan.run,
    "bisection": bisection.run,
    "capacity": capacity.run,
    "commands": commands.run,
    "wide_table": wide_table.run,
    "column_totals": column_totals.run,
}
ON_SERVER = ("connect", "latency_connect")
"""Benchmarks of a Spark Connect server: only with `--remote`."""
PACKAGES = ("pyspark", "deltalake", "dagster", "pyarrow")
_COMPARE = "compare"
_NAMES = f"{', '.join(BENCHMARKS)}; or: {_COMPARE} BASE.json NEW.json"


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help=_NAMES)] = None,
    files: Annotated[int, typer.Option(min=1_000, help="Live files of the table.")] = 1_000_000,
    commits: Annotated[int, typer.Option(min=12, help="Commits since the checkpoint.")] = 100,
    repeat: Annotated[int, typer.Option(min=1, help="Timed rounds, after a warm-up round.")] = 5,
    cores: Annotated[int, typer.Option(min=1, help="Cores of the Spark session.")] = 2,
    use: Annotated[str, typer.Option(metavar="auto|always", help="The engine, as in `spark: {use: ...}`.")] = "auto",
    remote: Annotated[str | None, typer.Option(metavar="URL", help="As in `spark: {remote: ...}`.")] = None,
    spark: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting; repeatable.")] = None,
    keep: Annotated[Path | None, typer.Option(help="A folder to keep the generated tables in.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Also write the results to this file.")] = None,
    page: Annotated[Path | None, typer.Option("--markdown", help="Write them as a Markdown table.")] = None,
) -> None:
    """Measure deltasnap, mostly compared with deltalake on the same table. Default: all benchmarks.

    The two sides run alternately, after a check that their results are equal. The output shows medians and minimums. On
    a busy machine, ratios are more reliable than times, and ratios of minimums more reliable than ratios of medians.
    The targets are for a million files, a hundred commits and two cores.

    `compare BASE.json NEW.json` prints which ratios changed between two files of `--json` by more than the noise of
    both runs. It exits with 1 if one got worse.
    """
    console = Console(width=None if sys.stdout.isatty() else 140)
    if names and names[0] == _COMPARE:
        _compare(console, names[1:])
        return
    wanted = names or [name for name in BENCHMARKS if remote is not None or name not in ON_SERVER]
    if unknown := [name for name in wanted if name not in BENCHMARKS]:
        raise typer.BadParameter(f"no benchmark named {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    if remote is None and not {*wanted}.isdisjoint(ON_SERVER):
        raise typer.BadParameter(f"{' and '.join(ON_SERVER)} need a Spark Connect server", param_hint="--remote")
    folder = Path(tempfile.mkdtemp(prefix="deltasnap-bench-")) if keep is None else keep.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with console.status("") as status:
        bench = Bench(
            files=files,
            commits=commits,
            repeat=repeat,
            cores=cores,
            spark_config=dict(setting.split("=", 1) for setting in spark or []),
            use=SparkSettings.model_validate({"use": use}).use,
            folder=folder,
            report=status.update,
            remote=remote,
        )
        try:
            results = [_run(console, bench, name, status.update) for name in wanted]
        finally:
            bench.close()
            if keep is None:
                shutil.rmtree(folder)
    if len(results) > 1:
        show(console, f"All of it: {bench.shape}", [finding for result in results for finding in result["found"]])
    if page is not None:
        page.write_text(markdown([finding for result in results for finding in result["found"]]))
    if output is not None:
        output.write_text(json.dumps(_document(bench, results), indent=1))
    if failed := [result["name"] for result in results if result["error"]]:
        console.print(f"[red]failed: {', '.join(failed)}[/red]")
        sys.exit(1)


def _compare(console: Console, paths: list[str]) -> None:
    if len(paths) != 2:
        raise typer.BadParameter(f"{_COMPARE} takes two files of --json: BASE.json NEW.json")
    try:
        found = moves(*(read_document(Path(path)) for path in paths))
    except NotComparableError as error:
        raise typer.BadParameter(str(error)) from error
    show_moves(console, found)
    if any(move.verdict == "slower" for move in found):
        sys.exit(1)


def _run(console: Console, bench: Bench, name: str, report: Callable[[str], None]) -> dict[str, Any]:
    report(name)
    start, load = time.perf_counter(), os.getloadavg()[0]
    found: list[Finding] = []
    error = ""
    try:
        found = BENCHMARKS[name](bench)
    except Exception:  # noqa: BLE001 - one that fails must not take the others' findings with it
        error = traceback.format_exc()
        console.print(f"[red]{name} failed[/red]")
        console.print(error, markup=False, highlight=False)
    seconds = time.perf_counter() - start
    show(console, f"{name} ({seconds:.0f} s; load of the machine {load:.1f} before)", found)
    return {"name": name, "seconds": seconds, "load_before": load, "error": error, "found": found}


def _document(bench: Bench, results: list[dict[str, Any]]) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "packages": {name: version(name) for name in PACKAGES},
        "files": bench.files,
        "commits": bench.commits,
        "repeat": bench.repeat,
        "cores": bench.cores,
        "use": bench.use,
        "remote": bench.remote,
        "spark_config": bench.spark_config,
        "benchmarks": [result | {"found": [finding.to_json() for finding in result["found"]]} for result in results],
    }


if __name__ == "__main__":
    typer.run(main)
