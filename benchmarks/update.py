"""How long does it take to follow ten commits on a loaded snapshot?"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltalake import DeltaTable

from benchmarks import answers
from benchmarks.bench import OURS, PEER, Bench, GrowingTable
from benchmarks.logs.shape import LogShape
from benchmarks.measure import Aim, Finding, Side, time_in_turn
from deltasnap_core import DeltaLog, SnapshotState

NEW_COMMITS = 10


def run(bench: Bench) -> list[Finding]:
    """Measure the table for which the targets are set."""
    return [following(bench, bench.shape, f"+{NEW_COMMITS} commits on a loaded snapshot", Aim(0.2))]


def following(bench: Bench, shape: LogShape, question: str, aim: Aim | None = None) -> Finding:
    """Measure following a table of any shape. Each round loads a new table before its last ten commits are added."""
    table = Following(bench, shape)
    times = time_in_turn(
        {
            OURS: Side(
                prepare=table.load_ours,
                run=table.update_ours,
                answer=lambda state: answers.ours(shape.last_version, state),
                finish=lambda _: table.forget(),
            ),
            PEER: Side(
                prepare=table.load_theirs,
                run=table.update_theirs,
                answer=answers.theirs,
                finish=lambda _: table.forget(),
            ),
        },
        bench.repeat,
    )
    return Finding(
        question=question, ours=times[OURS], theirs=times[PEER], peer="deltalake update_incremental", aim=aim
    )


@dataclass(slots=True)
class Following:
    """A table, new each time, that is loaded before its last commits are added."""

    bench: Bench
    shape: LogShape
    table: GrowingTable = field(init=False)
    log: DeltaLog = field(init=False)
    peer: DeltaTable = field(init=False)

    def load_ours(self) -> None:
        """Load the table with deltasnap, then add the commits."""
        self._start()
        self.log = self.bench.cold_log(self.table.folder)
        _ = self.log.update().computed_state
        self.table.grow(self.shape.last_version)

    def update_ours(self) -> SnapshotState:
        """Follow the commits with deltasnap."""
        return self.log.update().computed_state

    def load_theirs(self) -> None:
        """Load the table with deltalake, then add the commits."""
        self._start()
        self.peer = DeltaTable(self.table.folder)
        self.table.grow(self.shape.last_version)

    def update_theirs(self) -> DeltaTable:
        """Follow the commits with deltalake."""
        self.peer.update_incremental()
        return self.peer

    def forget(self) -> None:
        """Remove the table."""
        self.table.remove()

    def _start(self) -> None:
        self.table = self.bench.growing_table(self.shape, self.shape.last_version - NEW_COMMITS)
