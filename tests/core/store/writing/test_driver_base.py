"""A base that the driver writes, for a person, has the files and counts of the version."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given

from deltasnap_core import SnapshotStore, TableLog
from deltasnap_core.errors import SparkRequiredError
from deltasnap_core.replay.engine import Question, ReplayEngine, why_spark
from deltasnap_core.snapshot.delta_log import DeltaLog
from tests.builders import add, metadata, protocol, write_log
from tests.conftest import FixedClock
from tests.core.replay.driver.held_files_builders import PROPERTY
from tests.oracle import comparable, replay
from tests.random_logs import RandomLog, random_logs, write
from tests.without_spark import log_without_spark


def log_for_a_person(folder: Path) -> DeltaLog:
    log = log_without_spark(TableLog.for_path(folder, clock=FixedClock()))
    engine = ReplayEngine(log.context.engine.sessions, "person")
    return DeltaLog(replace(log.context, engine=engine), staleness_limit_ms=0)


@pytest.mark.slow
@PROPERTY
@given(made=random_logs())
def test_base_of_every_version_has_the_files_of_the_oracle(made: RandomLog) -> None:
    states, read = replay(made.commits), 0
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "t"), made, states)
        log = log_for_a_person(Path(folder, "t"))
        for version in made.versions:
            store = SnapshotStore.open(None, Path(folder, f"store{version}"), engine="person")
            try:
                store.write_versions("t", log, [version])
            except SparkRequiredError:  # an action that only Spark reads
                continue
            read += 1
            rows = [{"add": row} for row in store.read_arrow("t", version).to_pylist(maps_as_pydicts="strict")]
            assert comparable(rows) == comparable({"add": file} for file in states[version].files.values())
            state = store.computed_state("t", version)
            assert state.num_of_files == len(rows)
            assert state.num_of_removes == len(store.read_arrow("t", version, "tombstones"))
    assume(read)


def test_only_for_a_person_the_driver_reconstructs(tmp_path: Path) -> None:
    log_folder = write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a")]})
    log = log_without_spark(TableLog.for_path(log_folder.parent, clock=FixedClock()))
    with pytest.raises(SparkRequiredError, match="a version stored in full: always on Spark"):
        SnapshotStore.open(None, tmp_path / "store").write_range("t", log, 0, 0)


@pytest.mark.parametrize(("rows", "is_on_spark"), [(50_000, False), (50_001, True), (None, True)])
def test_spark_reconstructs_large_versions_for_a_person_too(rows: int | None, is_on_spark: bool) -> None:
    assert (why_spark(Question.RECONSTRUCT, rows, "person") is not None) is is_on_spark
