"""The live files of a version, read whole by the driver, are those of the oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import assume, given

from deltasnap_core import TableLog
from deltasnap_core.replay.driver.whole_actions import live_adds
from deltasnap_core.replay.engine import UnusualError
from tests.conftest import FixedClock
from tests.core.replay.driver.test_held_files import PROPERTY
from tests.oracle import comparable, replay
from tests.random_logs import RandomLog, random_logs, write
from tests.without_spark import log_without_spark


@PROPERTY
@given(made=random_logs())
def test_live_files_of_every_version_are_those_of_the_oracle(made: RandomLog) -> None:
    states = replay(made.commits)
    read = 0
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), made, states)
        log = log_without_spark(TableLog.for_path(folder), clock=FixedClock())
        for version in made.versions:
            snapshot = log.get_snapshot_at(version)
            try:
                found = live_adds(log.context.log.store, snapshot.log.replayable, log.path)
            except UnusualError:  # Spark reads it
                continue
            read += 1
            rows = [{"add": add} for add in found.to_pylist(maps_as_pydicts="strict")]
            assert comparable(rows) == comparable({"add": add} for add in states[version].files.values())
    assume(read)
