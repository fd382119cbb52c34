"""Idle ticks of the sensor of many stored tables, on a clock that moves between two ticks; reports its memory."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import dagster as dg

from benchmarks.children.reporting import arguments, process_mib, report
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings


class _Clock:
    """The clocks of this process, moved forward."""

    def __init__(self) -> None:
        self.moved_by = 0
        now, now_ns, monotonic = time.time, time.time_ns, time.monotonic
        time.time = lambda: now() + self.moved_by
        time.time_ns = lambda: now_ns() + self.moved_by * 1_000_000_000
        time.monotonic = lambda: monotonic() + self.moved_by


def main() -> None:
    """Report `HOUR` for each of the hours: the resident memory in MiB. Each log must have been examined again."""
    given = arguments()
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    folder, a_tick = Path(given["folder"]), given["tick_seconds"]
    tables = tuple(TableSettings(name=name, path=str(folder / name), versions="latest") for name in given["tables"])
    settings = Settings(storage=str(folder / "store"), tables=tables)
    sensors = build_definitions(settings).get_repository_def().sensor_defs
    (sensor,) = (each for each in sensors if "new_commits" in each.name)
    examined = _examined(settings)
    clock, cursor = _Clock(), None
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        for hour in given["hours"]:
            while clock.moved_by < hour * 3_600:
                result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
                assert isinstance(result, dg.SensorResult)
                assert not result.run_requests
                cursor = result.cursor
                clock.moved_by += a_tick
            report(str(hour), resident_mib=process_mib(os.getpid(), "VmRSS"))
    assert all(before != after for before, after in zip(examined, _examined(settings), strict=True))


def _examined(settings: Settings) -> list[int | None]:
    polls = [store_of(settings).polls.read(table.name) for table in settings.tables]
    return [None if poll is None else poll.examined_at_ms for poll in polls]


if __name__ == "__main__":
    main()
