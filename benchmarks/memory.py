"""Does a table of a million files fit into a driver heap of 1 GiB, and does five times the size need more memory?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.bench import Bench
from benchmarks.logs.shape import LogShape
from benchmarks.measure import Aim, Finding, Samples, compare
from benchmarks.processes import run_child
from deltasnap_assets.spark.session_config import session_config

HEAP = "1g"
TIMES = 5
VERSIONS = 10


def run(bench: Bench) -> list[Finding]:
    """Start a process per size: it computes the state of the latest version, then stores and reads versions."""
    shape = bench.shape
    larger = replace(shape, files=TIMES * shape.files, tombstones=TIMES * shape.tombstones)
    found = [_measure(bench, each) for each in (shape, larger)]
    peaks = [Samples((one["jvm_mib"] + one["python_mib"],)) for one in found]
    return [
        *(
            Finding(
                question=f"{each.files:,} files in a driver heap of {HEAP}: peak resident memory",
                ours=peak,
                unit="MiB",
                parts={
                    "peak of the JVM": one["jvm_mib"],
                    "peak of Python": one["python_mib"],
                },
                note=f"heap in use afterwards {one['heap_mib']:.0f} MiB; {one['load_seconds']:.1f} s to the computed"
                f" state, {one['store_seconds']:.1f} s to store {VERSIONS + 1} versions and read one",
            )
            for each, peak, one in zip((shape, larger), peaks, found, strict=True)
        ),
        Finding(
            question=f"Peak memory, {larger.files:,} files compared with {shape.files:,}",
            ours=peaks[1],
            theirs=peaks[0],
            peer=f"deltasnap on {shape.files:,} files",
            unit="MiB",
            aim=Aim(1.25),
        ),
    ]


def _measure(bench: Bench, shape: LogShape) -> dict[str, Any]:
    table, scratch = bench.table(shape), bench.scratch("memory")
    bench.report(f"{shape} in a heap of {HEAP}")
    settings = bench.spark_settings.model_copy(update={"config": {**bench.spark_config, "spark.driver.memory": HEAP}})
    last = shape.base_version + min(VERSIONS, shape.commits)
    reports = run_child(
        "memory",
        scratch / "child.log",
        table=str(table),
        store=str(scratch / "store"),
        first=shape.base_version,
        last=last,
        config=session_config(settings),
    )
    values = reports["done"].values
    found = (values["files"], values["stored_files"])
    compare({"made": (shape.live_files, shape.files), "found": found})
    return values
