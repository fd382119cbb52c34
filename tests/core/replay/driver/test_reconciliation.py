"""The replay with Arrow: as Spark's queries, in groups of file actions; and files that only one version has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from deltasnap_core import CorruptLogError, DeltaLog, SnapshotOptions, TableLog
from deltasnap_core.log.checkpoints import verified_parquet
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.commits.action_lines import read_lines
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, commit_file
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES
from deltasnap_core.replay.driver import checkpoint_measures, checkpoint_shares
from deltasnap_core.replay.driver.checkpoint_measures import map_measures
from deltasnap_core.replay.driver.file_difference import FileDifference
from deltasnap_core.replay.driver.reconciliation import newest_file_actions, with_path_keys, without_keys_of
from deltasnap_core.replay.driver.state_deltas import touched_or_expiring
from deltasnap_core.replay.spark.reading.file_action_layout import measures_sql
from deltasnap_core.replay.spark.reading.schemas import FILE_ACTION_COLUMNS
from deltasnap_core.replay.spark.state_deltas import grouped
from deltasnap_core.rules.expiry import unexpired
from deltasnap_core.rules.totals.aggregates import FileTotals, MeasureGroup, groups_of
from deltasnap_core.rules.totals.measures import MEASURES
from deltasnap_core.support import file_difference, read_commits
from tests.builders import (
    LOG_PATH,
    VECTOR_AT_4,
    Action,
    CountingLogStore,
    MemoryLogStore,
    add,
    checkpoint,
    metadata,
    protocol,
    remove,
    write_log,
)
from tests.checkpoint_files import CheckpointStyle, put_parsed_statistics, write_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "file:///t/_delta_log"
STATISTICS = (
    '{"numRecords":7,"minValues":{}}',
    '{"numRecords":7}',
    '{"minValues":{"numRecords":3},"numRecords":7}',
    '{ "numRecords" : 7 }',
    '{"numRecords":"7"}',
    '{"numRecords":7.5}',
    '{"numRecords":null}',
    '{"numRecords":9223372036854775807}',
    '{"numRecords":9223372036854775808}',
    '{"minValues":{"numRecords":3}}',
    "no JSON",
    "{}",
    None,
)
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab", "sizeInBytes": 1}
SIZES = (-1, 0, 1, 2**62, *(size + step for size in DEFAULT_BIN_BOUNDARIES for step in (-1, 0, 1)))


def measured(*actions: dict[str, Any], version: int = 0) -> pa.Table:
    lines = read_lines("file:///t/x.json", version, b"\n".join(json.dumps(action).encode() for action in actions))
    return with_path_keys(lines, LOG)


def keys(rows: pa.Table) -> list[str]:
    return sorted(rows["path_key"].to_pylist())


@pytest.mark.slow
def test_measures_and_groups_match_the_query(spark: SparkSession) -> None:
    actions = [add(f"s{i}", stats=stats) for i, stats in enumerate(STATISTICS)]
    actions += [add(f"z{size}", size=size) for size in SIZES]
    counts = (None, -1, 0, 1, 9, 10, 2**31 - 1, 2**40)
    actions += [add(f"v{n}", deletionVector={**VECTOR, **({} if n is None else {"cardinality": n})}) for n in counts]
    actions += [remove("r0"), remove("r1", deletion_timestamp=None)]
    found = measured(*actions)
    text = pa.table({"line": pa.array([json.dumps(action) for action in actions])})
    rows = spark.createDataFrame(text).select(F.from_json("line", FILE_ACTION_COLUMNS).alias("a"))
    rows = rows.selectExpr("a.*").selectExpr(*measures_sql())
    assert rows.toArrow().to_pylist() == found.select(list(MEASURES)).to_pylist()
    expected = FileTotals(MeasureGroup.of_row(row.asDict()) for row in grouped(rows))
    assert FileTotals(groups_of(found)) == expected


def test_groups_cancel_each_other_out_by_their_sign() -> None:
    rows = measured(add("a", size=2**40), remove("b"))
    assert FileTotals([*groups_of(rows), *groups_of(rows, sign=-1)]) == FileTotals()


@pytest.mark.parametrize("last", [3, 2**63 - 1])
def test_last_line_of_the_last_commit_of_a_file_counts_and_an_add_before_a_remove(last: int) -> None:
    newest = [remove("a b"), add("c", size=3), add("c", size=2), remove("c"), add("d", deletionVector=VECTOR)]
    commits = pa.concat_tables(
        [measured(add("a%20b", size=1), add("c", size=1), remove("d")), measured(*newest, version=last)]
    )
    rows = newest_file_actions(commits).select(["path_key", "dv_id", "size"]).to_pylist()
    assert sorted((row["path_key"], row["dv_id"], row["size"]) for row in rows) == [
        ("a b", "", None),
        ("c", "", 2),
        ("d", "", None),
        ("d", "uab", 1),
    ]


def test_empty_batch_has_no_newest_action() -> None:
    assert newest_file_actions(measured()).num_rows == 0


def test_only_changed_logical_files_are_removed() -> None:
    rows = measured(add("a"), add("a", deletionVector=VECTOR), add("b"))
    assert keys(without_keys_of(rows, measured(remove("a")))) == ["a", "b"]
    assert keys(without_keys_of(rows, measured(remove("c")))) == ["a", "a", "b"]
    assert keys(without_keys_of(rows, measured(add("a"), add("a", deletionVector=VECTOR), add("b")))) == []


def test_expired_tombstones_are_found_by_time() -> None:
    rows = measured(add("a"), remove("b", deletion_timestamp=5), remove("c", deletion_timestamp=6))
    assert keys(unexpired(rows, Retention.after(5))) == ["a", "c"]
    assert keys(unexpired(rows, Retention.after(0))) == ["a", "b", "c"]
    touched = measured(add("a"))
    assert keys(touched_or_expiring(rows, touched, Retention.after(4), Retention.after(5))) == ["a", "b"]
    assert keys(touched_or_expiring(rows, touched, Retention.after(0), Retention.after(6))) == ["a", "b", "c"]
    assert keys(touched_or_expiring(rows, touched, Retention.after(6), Retention.after(6))) == ["a"]


FIRST: list[Action] = [protocol(), metadata()]
OLD = VECTOR_AT_4
NEW = {**OLD, "offset": 90}
OLD_ID, NEW_ID = (f"u{OLD['pathOrInlineDv']}@{vector['offset']}" for vector in (OLD, NEW))

Files = list[tuple[str, str, int | None]]


def difference(table: Path, first: int, last: int) -> FileDifference:
    log = TableLog.for_path(table)
    listing = log.list()
    batch = read_commits(log.store, [listing.commits[version] for version in range(first + 1, last + 1)])
    found = file_difference(log.store, log.log_path, log.at(version=first), batch)
    assert found is not None
    return found


def files(found: FileDifference) -> tuple[Files, Files]:
    """Return the added and the removed files."""
    added, removed = (sorted(tuple(row.values()) for row in rows.to_pylist()) for rows in (found.added, found.removed))
    return added, removed


def changed(table: Path, versions: Mapping[int, list[Action]], first: int = 0) -> tuple[Files, Files]:
    write_log(table, versions)
    return files(difference(table, first, max(versions)))


def test_files_of_one_version_only_are_found_with_their_sizes(tmp_path: Path) -> None:
    versions = {
        0: [*FIRST, add("a", size=1), add("b", size=2), add("c", size=3)],
        1: [remove("b"), add("d", size=4)],
        2: [remove("a"), add("e", size=5)],
    }
    assert changed(tmp_path, versions) == ([("d", "", 4), ("e", "", 5)], [("a", "", 1), ("b", "", 2)])


def test_file_that_both_versions_have_or_lack_is_no_difference(tmp_path: Path) -> None:
    versions = {
        0: [*FIRST, add("kept"), add("written again"), add("removed and restored")],
        1: [add("came and went"), remove("removed and restored"), remove("never there")],
        2: [remove("came and went"), add("removed and restored", size=9), add("written again", size=9)],
    }
    assert changed(tmp_path, versions) == ([], [])


def test_file_with_another_deletion_vector_is_another_file(tmp_path: Path) -> None:
    versions = {
        0: [*FIRST, add("a", size=7, deletionVector=OLD), add("b", size=8)],
        1: [remove("a", deletionVector=OLD), add("a", size=7, deletionVector=NEW)],
        2: [remove("b"), add("b", size=8, deletionVector=OLD)],
    }
    added, removed = changed(tmp_path, versions)
    assert added == [("a", NEW_ID, 7), ("b", OLD_ID, 8)]
    assert removed == [("a", OLD_ID, 7), ("b", "", 8)]


def test_commits_without_file_actions_make_no_difference(tmp_path: Path) -> None:
    assert changed(tmp_path, {0: [*FIRST, add("a")], 1: [metadata(configuration={"x": "1"})]}) == ([], [])


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-json", "v2-parquet-sidecars"])
def test_removed_file_is_found_in_the_checkpoint_in_any_spelling(tmp_path: Path, style: CheckpointStyle) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a%20b", size=5), add("gone"), add("other")], 1: [remove("gone")]})
    write_checkpoint(log, 1, style, [*FIRST, add("a%20b", size=5), add("other"), remove("gone")])
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    versions = {2: [add("c", size=6)], 3: [remove("a b"), remove("gone")]}
    assert changed(tmp_path, versions, first=1) == ([("c", "", 6)], [("a%20b", "", 5)])


def test_commit_after_the_checkpoint_replaces_what_the_checkpoint_has(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a"), add("b", size=1)], 1: [remove("a"), add("b", size=2)]})
    write_checkpoint(log, 0, "classic", [*FIRST, add("a"), add("b", size=1)])
    assert changed(tmp_path, {2: [remove("a"), remove("b")]}, first=1) == ([], [("b", "", 2)])


def test_damaged_checkpoint_is_replaced_by_the_commits(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a", size=5)], 1: []})
    (file,) = write_checkpoint(log, 1, "classic", [*FIRST, add("a", size=5)])
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(40) + content[44:])
    write_log(tmp_path, {2: [remove("a")]})
    found = difference(tmp_path, 1, 2)
    assert (files(found), found.assumed) == (([], [("a", "", 5)]), None)


def test_files_of_an_unreadable_version_are_those_that_the_commits_remove_first(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [*FIRST, add("a")], 1: []})
    write_checkpoint(log, 1, "classic", [*FIRST, add("a")])
    write_log(
        tmp_path,
        {
            2: [remove("a", size=5), add("new", size=6), remove("moved"), add("moved", deletionVector=OLD)],
            3: [remove("new"), add("later", size=7)],
        },
    )
    version, commits = TableLog.for_path(tmp_path).at(version=1), {2: "", 3: ""}
    _ = version.protocol  # read before the files of the version are lost
    store = TableLog.for_path(tmp_path).store
    batch = read_commits(store, [TableLog.for_path(tmp_path).list().commits[number] for number in commits])
    for file in (log / commit_file(0), *log.glob("*.checkpoint.parquet")):
        content: Any = file.read_bytes()
        file.write_bytes(content[:4] + bytes(len(content) - 12) + content[-8:])
    found = file_difference(store, version.segment.log_path, version, batch)
    assert found is not None
    assert isinstance(found.assumed, CorruptLogError)
    added, removed = files(found)
    assert added == [("later", "", 7), ("moved", OLD_ID, 1)]
    assert [path for path, _, _ in removed] == ["a", "moved"]


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURED = [("stats", pa.string()), ("stats_parsed", pa.struct([("numRecords", pa.int64())]))]
SCHEMA = pa.schema([("add", pa.struct([("path", pa.string()), ("size", pa.int64()), *MEASURED]))])


def checkpoint_of(store: MemoryLogStore, count: int, *, rows_a_group: int) -> CheckpointContents:
    adds = [{"path": f"f{number}", "size": number} for number in range(count)]
    return checkpoint_with(store, adds, rows_a_group=rows_a_group)


def checkpoint_with(store: MemoryLogStore, adds: list[dict[str, object]], *, rows_a_group: int) -> CheckpointContents:
    rows = [{"add": add} for add in adds]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, row_group_size=rows_a_group)
    (status,) = checkpoint(3)
    file = store.put(status.name, sink.getvalue())
    kind = CheckpointKind("classic")
    provider = CheckpointProvider(version=3, files=(file,), kind=kind, format="parquet")
    return open_checkpoint(store, provider, LOG_PATH)


def records_of(**fields: object) -> list[int | None]:
    """The record counts of a checkpoint with one file, whose add has these extra fields."""
    store = MemoryLogStore()
    contents = checkpoint_with(store, [{"path": "a", "size": 1, **fields}], rows_a_group=1)
    (found,) = map_measures(store, contents, lambda digest: digest["records"].to_pylist())
    return list(found)


def sizes(digest: pa.Table) -> list[int]:
    found: list[int] = digest["size"].to_pylist()
    return found


def test_small_row_groups_are_examined_together() -> None:
    files = MemoryLogStore()
    contents = checkpoint_of(files, 50, rows_a_group=5)
    store = CountingLogStore(files)

    assert map_measures(store, contents, sizes) == [list(range(50))]
    assert len(store.opens) == 1


def test_wide_rows_are_examined_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_parquet, "_BATCH_BYTES", 1)
    files = MemoryLogStore()

    assert map_measures(files, checkpoint_of(files, 9, rows_a_group=9), sizes) == [list(range(9))]


def test_many_rows_are_shared_out_by_row_groups_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (verified_parquet, checkpoint_measures, checkpoint_shares):
        monkeypatch.setattr(module, "BATCH_ROWS", 4)
    files = MemoryLogStore()

    found = map_measures(files, checkpoint_of(files, 20, rows_a_group=3), sizes)

    assert [number for part in found for number in part] == list(range(20))
    assert max(map(len, found)) <= 8


def test_json_is_not_read_if_every_file_has_a_struct_record_count() -> None:
    assert records_of(stats="damaged", stats_parsed={"numRecords": 7}) == [7]


def test_number_of_records_comes_from_json_if_a_file_has_no_struct_value() -> None:
    assert records_of(stats='{"numRecords":7}', stats_parsed={"numRecords": None}) == [7]


STRUCT_FIRST = {
    "empty JSON": ("{}", 7, 7),
    "JSON of another number": ('{"numRecords":5}', 7, 7),
    "no number in the struct": ('{"numRecords":5}', None, 5),
    "no JSON": (None, 7, 7),
    "neither": ("{}", None, None),
}


@pytest.mark.parametrize(("stats", "parsed", "records"), STRUCT_FIRST.values(), ids=STRUCT_FIRST)
def test_a_struct_value_counts_before_the_json(stats: str | None, parsed: int | None, records: int | None) -> None:
    store = MemoryLogStore()
    adds: list[dict[str, object]] = [
        {"path": "a", "size": 1, "stats": stats, "stats_parsed": {"numRecords": parsed}},
        {"path": "b", "size": 1, "stats": '{"numRecords":1}', "stats_parsed": {"numRecords": None}},
    ]
    contents = checkpoint_with(store, adds, rows_a_group=2)
    assert map_measures(store, contents, lambda digest: digest["records"].to_pylist()) == [[records, 1]]


@pytest.mark.slow
@pytest.mark.parametrize("other", [1, None], ids=["every file has a struct value", "one file has none"])
def test_both_engines_read_the_same_number_of_records(spark: SparkSession, tmp_path: Path, other: int | None) -> None:
    cases = [*STRUCT_FIRST.values(), ('{"numRecords":1}', other, 1)]
    cases = [case for case in cases if other is None or case[1] is not None]
    first = [protocol(), metadata()]
    adds = [add(f"f{number}", stats=stats) for number, (stats, _, _) in enumerate(cases)]
    log = write_log(tmp_path, {0: [*first, *adds]})
    (file,) = write_checkpoint(log, 0, "classic", [*first, *adds])
    structs = [None, None, *({"numRecords": parsed} for _, parsed, _ in cases)]
    put_parsed_statistics(file, pa.array(structs, pa.struct([("numRecords", pa.int64())])), keep_json=True)
    (log / "00000000000000000000.json").unlink()
    known = [records for _, _, records in cases if records is not None]
    for options in SnapshotOptions(), SnapshotOptions(engine="spark"):
        state = DeltaLog.for_table(spark, tmp_path, options=options).snapshot.computed_state
        assert (state.num_known_records, state.num_files_without_records) == (sum(known), len(cases) - len(known))


@pytest.mark.parametrize("use_threads", [False, True])
def test_batches_of_one_row_group_come_in_order(monkeypatch: pytest.MonkeyPatch, use_threads: bool) -> None:
    monkeypatch.setattr(verified_parquet, "BATCH_ROWS", 10)
    store = MemoryLogStore()
    (part,) = checkpoint_of(store, 95, rows_a_group=95).files_with_file_actions
    (share,) = checkpoint_shares.shares_of(part, ["add.size"])
    batches = list(share.batches(store, use_threads=use_threads))
    assert [batch.num_rows for batch in batches] == [*[10] * 9, 5]
    assert [row["add"]["size"] for batch in batches for row in batch.to_pylist()] == list(range(95))


def test_file_is_closed_if_its_batches_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified_parquet, "BATCH_ROWS", 10)
    store, opened = MemoryLogStore(), list[BinaryIO]()
    (part,) = checkpoint_of(store, 95, rows_a_group=95).files_with_file_actions
    (share,) = checkpoint_shares.shares_of(part, ["add.size"])
    open_file = store.open

    def noted(path: str) -> BinaryIO:
        opened.append(open_file(path))
        return opened[-1]

    monkeypatch.setattr(store, "open", noted)
    batches = share.batches(store, use_threads=True)
    next(batches)
    assert not opened[0].closed
    batches.close()
    assert opened[0].closed
