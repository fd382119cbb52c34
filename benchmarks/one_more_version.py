"""How much time and how many bytes does one more version of 20 actions take, on a large and on a small table?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.logs.shape import LogShape
from benchmarks.measure import Aim, Finding, Samples, Side, time_in_turn
from benchmarks.version_range import TABLE
from deltasnap_core import SnapshotStore

SMALL = 10_000


def run(bench: Bench) -> list[Finding]:
    """Store one version of both tables, then the later versions one by one, each with a cold log."""
    large = bench.shape
    small = replace(large, files=SMALL, tombstones=SMALL // 10)
    sides = {"large": _Following(bench, large), "small": _Following(bench, small)}
    repeat = min(max(bench.repeat, 5), bench.commits - 1)
    times = time_in_turn({name: Side(run=side.store_next, finish=side.weigh) for name, side in sides.items()}, repeat)
    return [
        Finding(
            question=f"One more version of {large.actions} actions: {large.files:,} files compared with {SMALL:,}",
            ours=times["large"],
            theirs=times["small"],
            peer=f"deltasnap on {SMALL:,} files",
            aim=Aim(1.5),
        ),
        *(
            Finding(
                question=f"Bytes stored for a version of {side.shape.actions} actions, {side.shape.files:,} files",
                ours=Samples(tuple(side.kib)),
                unit="KiB",
                aim=Aim(64, is_ratio=False),
            )
            for side in sides.values()
        ),
    ]


@dataclass(slots=True)
class _Following:
    """A store that follows a table. kib: the size added by each version, including merged files not yet removed."""

    bench: Bench
    shape: LogShape
    kib: list[float] = field(default_factory=list)
    _store: SnapshotStore = field(init=False)
    _folder: Path = field(init=False)
    _version: int = field(init=False)
    _bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self._folder = self.bench.scratch("store")
        self._store = SnapshotStore.open(self.bench.spark, self._folder, engine=self.bench.spark_settings.engine)
        self._version = self.shape.base_version
        log = self.bench.cold_log(self.bench.table(self.shape))
        self._store.write_range(TABLE, log, self._version, self._version)
        self._bytes = _size(self._folder)

    def store_next(self) -> None:
        self._version += 1
        log = self.bench.cold_log(self.bench.table(self.shape))
        self._store.write_range(TABLE, log, self._version, self._version)

    def weigh(self, _: None) -> None:
        before, self._bytes = self._bytes, _size(self._folder)
        self.kib.append((self._bytes - before) / 1024)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
