"""How long does it take to compute the state of a table's latest version, starting from nothing?"""

from __future__ import annotations

from deltalake import DeltaTable

from benchmarks import answers
from benchmarks.bench import OURS, PEER, Bench
from benchmarks.logs.shape import LogShape
from benchmarks.measure import WARM_UPS, Aim, Finding, Side, time_in_turn
from deltasnap_core import DeltaLog


def run(bench: Bench) -> list[Finding]:
    """Measure the table for which the targets are set."""
    return [cold_state(bench, bench.shape, "Computed state of the latest version, cold", Aim(0.2), WARM_UPS)]


def cold_state(bench: Bench, shape: LogShape, question: str, aim: Aim | None = None, warm_ups: int = 1) -> Finding:
    """Measure a cold load of any shape (listing, log, replay, aggregation), compared with deltalake's load."""
    table = bench.table(shape)
    version = shape.last_version
    times = time_in_turn(
        {
            OURS: Side(
                prepare=DeltaLog.clear_cache,
                run=lambda: bench.cold_log(table).update().computed_state,
                answer=lambda state: answers.ours(version, state),
            ),
            PEER: Side(run=lambda: DeltaTable(table), answer=answers.theirs),
        },
        bench.repeat,
        warm_ups=warm_ups,
    )
    return Finding(question=question, ours=times[OURS], theirs=times[PEER], peer="deltalake load", aim=aim)
