"""How long does it take to store every version of a range? Are the stored versions correct?"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from deltalake import DeltaTable

from benchmarks import answers
from benchmarks.bench import Bench
from benchmarks.measure import Aim, Finding, Samples, compare
from deltasnap_core import SnapshotStore

TABLE = "bench"
SAMPLED = 5


def run(bench: Bench) -> list[Finding]:
    """Store the base version and all later commits in an empty store; read samples back; load them with deltalake."""
    table, shape = bench.table(bench.shape), bench.shape
    versions = range(shape.base_version, shape.last_version + 1)
    sampled = sorted({versions[round(i * (len(versions) - 1) / (SAMPLED - 1))] for i in range(SAMPLED)})
    whole, after_base, reading, loading = [], [], [], []
    for number in range(bench.repeat + 1):
        bench.report(f"storing {len(versions)} versions, round {number}")
        store = bench.new_store()
        start = time.perf_counter()
        store.write_range(TABLE, bench.cold_log(table), versions[0], versions[0])
        base_done = time.perf_counter()
        store.write_range(TABLE, bench.cold_log(table), versions[1], versions[-1])
        done = time.perf_counter()
        files = store.all_files(TABLE, versions[-1]).count() + store.tombstones(TABLE, versions[-1]).count()
        read = time.perf_counter()
        compare({"stored": files, "expected": shape.live_files + shape.tombstones + shape.commits * shape.removes})
        loads = [_load(table, version) for version in sampled] if number else []
        if number == 0:
            _check(store, table, versions, sampled)
            continue
        whole.append(done - start)
        after_base.append(done - base_done)
        reading.append(read - done)
        loading.append(statistics.mean(loads) * len(versions))
    theirs = Samples(tuple(loading))
    peer = f"deltalake, each version loaded ({len(sampled)} of {len(versions)}, extrapolated)"
    return [
        Finding(
            question=f"Storing {len(versions)} versions in an empty store",
            ours=Samples(tuple(whole)),
            theirs=theirs,
            peer=peer,
            aim=Aim(0.02),
            note="state, computed state, all files and tombstones of each version; the base is written first",
        ),
        Finding(
            question=f"The same after the base is stored: {len(versions) - 1} versions",
            ours=Samples(tuple(after_base)),
            theirs=theirs.scaled((len(versions) - 1) / len(versions)),
            peer=peer,
        ),
        Finding(question="Reading and counting all files and tombstones of one version", ours=Samples(tuple(reading))),
    ]


def _load(table: Path, version: int) -> float:
    start = time.perf_counter()
    DeltaTable(table, version=version)
    return time.perf_counter() - start


def _check(store: SnapshotStore, table: Path, versions: range, sampled: list[int]) -> None:
    compare({"stored": store.versions(TABLE), "expected": list(versions)})
    for version in sampled:
        answer = answers.ours(version, store.computed_state(TABLE, version))
        compare({"deltasnap": answer, "deltalake": answers.theirs(DeltaTable(table, version=version))})
        compare({"computed state": answer.files, "all files": store.all_files(TABLE, version).count()})
