"""The live files of a version, read completely by the driver, match the oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given

from deltasnap_core import CorruptLogError, TableLog
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.engine import UnusualError
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint
from tests.conftest import FixedClock
from tests.core.replay.driver.held_files_builders import PROPERTY
from tests.oracle import comparable, replay
from tests.random_logs import RandomLog, random_logs, write
from tests.without_spark import log_without_spark


@pytest.mark.slow
@PROPERTY
@given(made=random_logs())
def test_live_files_of_every_version_match_the_oracle(made: RandomLog) -> None:
    states = replay(made.commits)
    read = 0
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), made, states)
        log = log_without_spark(TableLog.for_path(folder, clock=FixedClock()))
        for version in made.versions:
            snapshot = log.get_snapshot_at(version)
            try:
                found = live_adds(log.context.table_log.store, snapshot.log.replayable, log.path)
            except UnusualError:  # Spark reads it
                continue
            read += 1
            rows = [{"add": add} for add in found.to_pylist(maps_as_pydicts="strict")]
            assert comparable(rows) == comparable({"add": add} for add in states[version].files.values())
    assume(read)


def test_path_that_is_not_utf8_is_damage_of_the_checkpoint(tmp_path: Path) -> None:
    actions = [protocol(), metadata(), add("abcd.parquet")]
    log_folder = write_log(tmp_path, {0: actions, 1: [add("b%20c.parquet")]})
    write_checkpoint(log_folder, 0, "classic", actions)
    (log_folder / "00000000000000000000.json").unlink()
    (file,) = log_folder.glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(file), file, compression="none", write_statistics=False)
    file.write_bytes(file.read_bytes().replace(b"abcd.parquet", b"ab\xff%.parquet"))
    log = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock()))
    snapshot = log.get_snapshot_at(1)
    with pytest.raises(CorruptLogError, match="Invalid UTF8"):
        live_adds(log.context.table_log.store, snapshot.log.replayable, log.path)
    with pytest.raises(CorruptLogError, match="Invalid UTF8"):
        _ = snapshot.computed_state


def test_statistics_that_are_only_a_struct_are_left_to_spark(tmp_path: Path) -> None:
    actions = [protocol(), metadata(), add("a")]
    log_folder = write_log(tmp_path, {0: actions})
    (file,) = write_checkpoint(log_folder, 0, "classic", actions)
    rows = pa.StructArray.from_arrays([pa.array([1] * len(actions), pa.int64())], ["numRecords"])
    put_parsed_statistics(file, rows, keep_json=False)
    log = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock()))
    with pytest.raises(UnusualError, match="statistics as a struct"):
        live_adds(log.context.table_log.store, log.get_snapshot_at(0).log.replayable, log.path)


def test_add_of_nulls_beside_a_remove_is_no_file(tmp_path: Path) -> None:
    actions = [protocol(), metadata(), add("a"), remove("b")]
    log_folder = write_log(tmp_path, {0: actions})
    (file,) = write_checkpoint(log_folder, 0, "classic", actions)
    rows = pq.read_table(file)
    column = rows["add"].combine_chunks()
    filled = pa.StructArray.from_arrays(column.flatten(), fields=list(column.type))
    pq.write_table(rows.set_column(rows.column_names.index("add"), "add", filled), file)
    log = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock()))
    found = live_adds(log.context.table_log.store, log.get_snapshot_at(0).log.replayable, log.path)
    assert found["path"].to_pylist() == ["a"]


def test_commits_replace_and_remove_files_of_the_checkpoint(tmp_path: Path) -> None:
    actions = [protocol(), metadata(), add("kept"), add("removed"), add("again", size=1)]
    log_folder = write_log(tmp_path, {0: actions, 1: [remove("removed"), add("again", size=2), add("new")]})
    write_checkpoint(log_folder, 0, "classic", actions)
    (log_folder / "00000000000000000000.json").unlink()
    log = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock()))
    snapshot = log.get_snapshot_at(1)
    found = live_adds(log.context.table_log.store, snapshot.log.replayable, log.path)
    sizes = dict(zip(found["path"].to_pylist(), found["size"].to_pylist(), strict=True))
    assert sizes.keys() == {"kept", "again", "new"}
    assert sizes["again"] == 2
