"""The live files and the computed state without Spark, compared with the golden tables and the oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given

from deltasnap_core import CorruptLogError, DeltaLog, SnapshotState, TableLog
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.driver import held_files
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.driver.held_files import MemoryBudget
from deltasnap_core.replay.engine import UnusualError
from tests.builders import add, content, metadata, protocol, remove, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint
from tests.conftest import FixedClock, golden_folder
from tests.core.replay.driver.held_files_builders import PROPERTY
from tests.golden import ERRORS, GoldenTable, expected_counts, load_golden_tables
from tests.oracle import comparable, counts_of, replay
from tests.random_logs import EXPIRED, RandomLog, random_logs, write
from tests.without_spark import log_without_spark

KEEP_ALL = 0
FOLDER = golden_folder()
TABLES = list(load_golden_tables(FOLDER)) if FOLDER is not None else []


def log_at(path: Path, clock: FixedClock | None = None) -> DeltaLog:
    return log_without_spark(TableLog.for_path(path, clock=clock or FixedClock()))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    actions = [protocol(), metadata(), add("a", size=5), add("b", size=2)]
    write_log(tmp_path, {0: actions, 1: [remove("b", deletion_timestamp=EXPIRED)], 2: [add("c", size=1)]})
    write_checkpoint(tmp_path / file_names.LOG_FOLDER, 0, "classic", actions)
    return tmp_path


def with_damaged_paths(table: Path) -> Path:
    """The checkpoint, its pages of `add.path` overwritten."""
    (path,) = (table / file_names.LOG_FOLDER).glob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    (chunk,) = [chunk for chunk in chunks if chunk.path_in_schema == "add.path"]
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(data)
    return path


def first_and_last_versions_of_each_start(golden: GoldenTable) -> list[int]:
    """The first version only after a checkpoint: versions between them read a part of the same commits."""
    by_start: dict[tuple[str, ...], list[int]] = {}
    for version, state in sorted(golden.states.items()):
        segment = state["log_segment"]
        by_start.setdefault((*segment["checkpoint_files"], *segment["compaction_files"]), []).append(version)
    firsts = {versions[0] for start, versions in by_start.items() if start}
    return sorted(firsts | {versions[-1] for versions in by_start.values()})


@pytest.mark.skipif(FOLDER is None, reason="no golden tables: set DELTASNAP_GOLDEN to their folder")
@pytest.mark.parametrize("golden", TABLES, ids=[table.name for table in TABLES])
def test_golden_versions_have_the_expected_state_without_spark(golden: GoldenTable) -> None:
    log = log_at(golden.path)
    for version in first_and_last_versions_of_each_start(golden):
        snapshot = log.get_snapshot_at(version, min_file_retention_timestamp=KEEP_ALL)
        assert counts_of(snapshot.computed_state) == expected_counts(golden.states[version]), version
    for version, category in sorted(golden.refusals.items()):
        if golden.name != "derived__checkpoint-truncated-parquet":  # loaded without its checkpoint: see test_golden
            with pytest.raises(ERRORS[category]):
                _ = log.get_snapshot_at(version, min_file_retention_timestamp=KEEP_ALL).computed_state


@pytest.mark.slow
@PROPERTY
@given(made=random_logs())
def test_states_of_every_version_agree_with_the_oracle(made: RandomLog) -> None:
    states = replay(made.commits)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), made, states)
        log = log_at(Path(folder))
        for version in made.versions:
            snapshot = log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED)
            assert counts_of(snapshot.computed_state) == states[version].counts(EXPIRED)


@pytest.mark.slow
@PROPERTY
@given(made=random_logs())
def test_following_a_log_matches_the_oracle(made: RandomLog) -> None:
    states = replay(made.commits)
    with tempfile.TemporaryDirectory() as folder:
        log = log_at(Path(folder), FixedClock(EXPIRED + 7 * 24 * 60 * 60 * 1000))
        for version, commit in enumerate(made.commits):
            log_folder = write_log(Path(folder), {version: commit})
            if version in made.checkpoints:
                write_checkpoint(log_folder, version, made.checkpoints[version], states[version].actions(EXPIRED))
            assert counts_of(log.update().computed_state) == states[version].counts(EXPIRED)


def test_files_are_looked_up_again_until_the_log_is_closed(table: Path) -> None:
    before = held_files.MEMORY_BUDGET.free
    log = log_at(table)
    first = log.update()
    assert first.computed_state.num_of_files == 2
    assert held_files.MEMORY_BUDGET.free < before
    write_log(table, {3: [remove("a"), add("d", size=9)]})
    second = log.update()
    assert (second.computed_state.num_of_files, second.computed_state.size_in_bytes) == (2, 10)
    assert first.known_state is not None
    assert second.known_state is not None
    assert second.known_state.files is first.known_state.files
    log.close()
    assert held_files.MEMORY_BUDGET.free == before


def test_files_beyond_the_cache_limit_are_read_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_files, "MEMORY_BUDGET", MemoryBudget(0))
    log = log_at(table)
    assert log.update().computed_state.num_of_files == 2
    write_log(table, {3: [remove("a"), add("d", size=9)]})
    assert log.update().computed_state.size_in_bytes == 10
    assert held_files.MEMORY_BUDGET.free == 0


def test_tombstones_that_expire_in_the_meantime_no_longer_count(table: Path) -> None:
    week = 7 * 24 * 60 * 60 * 1000
    clock = FixedClock(EXPIRED + week - 1)
    log = log_at(table, clock)
    assert log.update().computed_state.num_of_removes == 1
    clock.advance(1)
    write_log(table, {3: [add("d")]})
    assert log.update().computed_state.num_of_removes == 0


def test_damaged_page_of_a_checkpoint_falls_back_to_the_commits(table: Path, caplog: pytest.LogCaptureFixture) -> None:
    with_damaged_paths(table)
    assert log_at(table).update().computed_state.num_of_files == 2
    assert "cannot be used" in caplog.text


def test_damaged_page_without_fallback_raises_an_error_that_names_the_file(table: Path) -> None:
    path = with_damaged_paths(table)
    (table / file_names.LOG_FOLDER / file_names.commit_file(0)).unlink()
    with pytest.raises(CorruptLogError, match=path.name):
        _ = log_at(table).update().computed_state


@pytest.mark.parametrize(
    ("stats", "records"),
    [
        ('{"numRecords":7,"minValues":{}}', 7),
        ('{"numRecords":7}', 7),
        ('{"minValues":{"numRecords":3},"numRecords":7}', 7),
        (' {"numRecords" : 7 }', 7),
        ('{"numRecords":"7"}', 7),
        ('{"numRecords":7.5}', None),
        ('{"numRecords":9223372036854775807}', 9223372036854775807),
        ('{"numRecords":9223372036854775808}', None),
        ('{"minValues":{"numRecords":3}}', None),
        ('{\n"numRecords":7\n}', 7),
        ("no JSON", None),
        ("{}", None),
        ("", None),
    ],
)
def test_number_of_records_is_found_in_any_form_of_statistics(tmp_path: Path, stats: str, records: int | None) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a", stats=stats)]})
    assert log_at(tmp_path).update().computed_state.num_records == records


def test_computed_state_survives_json(tmp_path: Path) -> None:
    domain = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
    txn = {"txn": {"appId": "x", "version": 1, "lastUpdated": 5}}
    write_log(tmp_path, {0: [protocol(), metadata(), add("a"), txn, domain]})
    state = log_at(tmp_path).update().computed_state
    assert SnapshotState.from_json(state.to_json()) == state


def test_checkpoint_in_json_counts_as_one_in_parquet(tmp_path: Path) -> None:
    actions = [protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint"]), metadata(), add("a")]
    log_folder = write_log(tmp_path, {0: actions, 1: [add("b"), remove("a")]})
    name = "00000000000000000000.checkpoint.0b5f6d9c-1f4e-4c0a-8d3e-2a7c9be0f001.json"
    (log_folder / name).write_bytes(content([{"checkpointMetadata": {"version": 0}}, *actions]))
    assert log_at(tmp_path).update().computed_state.num_of_files == 1


def test_budget_reserves_up_to_all_of_its_bytes() -> None:
    budget = MemoryBudget(10)
    assert [budget.reserve(size) for size in (4, 7, 6, 1, 0)] == [True, False, True, False, True]
    budget.release(3)
    assert (budget.free, budget.reserve(4), budget.reserve(3)) == (3, False, True)


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
