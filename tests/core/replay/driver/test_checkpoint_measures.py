"""The measures of a checkpoint: how many file actions are read together."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.log.checkpoints import verified_parquet
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from deltasnap_core.replay.driver import checkpoint_measures, checkpoint_shares
from deltasnap_core.replay.driver.checkpoint_measures import map_measures
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, add, checkpoint, metadata, protocol, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATISTICS = [("stats", pa.string()), ("stats_parsed", pa.struct([("numRecords", pa.int64())]))]
SCHEMA = pa.schema([("add", pa.struct([("path", pa.string()), ("size", pa.int64()), *STATISTICS]))])


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
