"""Damaged checkpoints are an error, never a crash: footers, pages, and rows with two actions."""

from __future__ import annotations

import gc
import io
from io import BytesIO
from itertools import combinations
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, strategies as st

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoints import parquet_footer
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint, read_columns
from deltasnap_core.log.checkpoints.checkpoint_pages import _contents_of, read_every_page, read_pages
from deltasnap_core.log.checkpoints.checkpoint_rules import check_columns
from deltasnap_core.log.checkpoints.verified_parquet import UNREADABLE
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.non_file_actions import load_non_file_actions
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, checkpoint_file
from deltasnap_core.replay.driver.checkpoint_measures import map_measures
from deltasnap_core.replay.driver.full_actions import full_actions
from deltasnap_core.storage.writable_files import FileParts
from tests.builders import LOG_PATH, MemoryLogStore, add, checkpoint, metadata, protocol, remove
from tests.core.storage.concurrency_builders import FORKS

KINDS: dict[str, dict[str, Any]] = {
    **add("a.parquet", size=1),
    **remove("b.parquet"),
    **metadata(),
    **protocol(),
    "txn": {"appId": "x", "version": 1},
    "domainMetadata": {"domain": "d", "configuration": "{}", "removed": False},
    "checkpointMetadata": {"version": 3},
}
PAIRS = [pytest.param(one, other, id=f"{one}+{other}") for one, other in combinations(KINDS, 2)]
_ACTIONS = [{}, *({kind: values} for kind, values in KINDS.items())]
ROWS = st.lists(st.sampled_from(_ACTIONS), min_size=1, max_size=12)


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, dict):
        is_map = not value or "provider" in value
        fields = [(name, _type_of(each)) for name, each in value.items()]
        return pa.map_(pa.string(), pa.string()) if is_map and not fields else pa.struct(fields)
    return pa.array([value]).type if value not in (None, []) else pa.list_(pa.string()) if value == [] else pa.string()


SCHEMA = pa.schema([(kind, _type_of(values)) for kind, values in KINDS.items()])


def parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, **options)
    return sink.getvalue()


def opened(store: MemoryLogStore, data: bytes) -> CheckpointContents:
    """Read the footer of a checkpoint."""
    file = store.put(checkpoint(3)[0].name, data)
    provider = CheckpointProvider(version=3, files=(file,), kind=CheckpointKind.CLASSIC, format="parquet")
    return open_checkpoint(store, provider, LOG_PATH)


def read(data: bytes) -> tuple[int, int]:
    """Read all actions of a checkpoint like the driver. Return the number of file actions and of others."""
    store = MemoryLogStore()
    contents = opened(store, data)
    found = load_non_file_actions(store, contents, EMPTY_BATCH)
    others = [found.protocol, found.metadata, *found.transactions, *found.domains]
    files = sum(map_measures(store, contents, lambda rows: rows.num_rows))
    return files, sum(other is not None for other in others)


@pytest.mark.parametrize(
    ("field", "named"),
    [
        (pa.field("deletionvector", pa.struct([("storageType", pa.string())])), "add.deletionVector, found add.dele"),
        (
            pa.field("deletionVector", pa.struct([("Offset", pa.int32())])),
            "deletionVector.offset, found deletionVector.O",
        ),
        (pa.field("Stats", pa.string()), "add.stats, found add.Stats"),
    ],
)
def test_field_with_the_name_of_a_known_one_in_another_case_is_named(field: pa.Field, named: str) -> None:
    add = pa.struct([("path", pa.string()), ("size", pa.int64()), field])
    sink = BytesIO()
    pq.write_table(pa.table({"add": pa.array([{"path": "a", "size": 1}], add)}), sink)
    with pytest.raises(CorruptLogError, match=f"expected {named}"):
        read(sink.getvalue())


@pytest.mark.parametrize(("blanks", "statistics"), [(0, True), (3, True), (0, False)])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_row_with_two_actions_is_an_error_with_the_file(one: str, other: str, blanks: int, statistics: bool) -> None:
    rows = [add("c"), {one: KINDS[one], other: KINDS[other]}, *[{}] * blanks]
    with pytest.raises(CorruptLogError, match="at most one action in a row") as caught:
        read(parquet(rows, write_statistics=statistics))
    assert caught.value.path == f"{LOG_PATH}/{checkpoint(3)[0].name}"


@pytest.mark.parametrize(("group", "rows_a_group"), [(0, 2), (1, 1)])
def test_more_actions_than_rows_are_found_in_the_footer(group: int, rows_a_group: int) -> None:
    data = parquet([add("c"), {**add("a"), **remove("b")}], row_group_size=rows_a_group)
    found = f"found {rows_a_group + 1} actions in {rows_a_group} rows of row group {group}"
    with pytest.raises(CorruptLogError, match=found):
        opened(MemoryLogStore(), data)


def test_add_without_any_required_field_is_found_in_the_footer() -> None:
    data = parquet([add("c"), {"add": {"modificationTime": 1}}])
    with pytest.raises(CorruptLogError, match=r"expected add\.(path|size) in each add, found null"):
        opened(MemoryLogStore(), data)


@pytest.mark.slow
@given(rows=ROWS, rows_a_group=st.integers(1, 5), statistics=st.booleans())
def test_rows_of_one_action_or_none_are_read(rows: list[dict[str, Any]], rows_a_group: int, statistics: bool) -> None:
    kinds = [kind for row in rows for kind in row]
    assume(all(kinds.count(kind) < 2 for kind in ("protocol", "metaData", "checkpointMetadata")))
    others = {kind for kind in kinds if kind in ("protocol", "metaData", "txn", "domainMetadata")}
    found = read(parquet(rows, row_group_size=rows_a_group, write_statistics=statistics))
    assert found == (kinds.count("add") + kinds.count("remove"), len(others))


def test_whole_rows_with_two_file_actions_are_an_error() -> None:
    rows = pa.Table.from_pylist([{}, {"add": KINDS["add"], "remove": KINDS["remove"]}], schema=SCHEMA)
    with pytest.raises(ValueError, match="at most one action in a row"):
        full_actions(rows)


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("add", "path"),
        ("add", "size"),
        ("add", "modificationTime"),
        ("add", "deletionVector"),
        ("add", "stats_parsed"),
        ("remove", "path"),
        ("remove", "deletionTimestamp"),
        ("remove", "deletionVector"),
        ("sidecar", "path"),
    ],
)
def test_field_of_another_type_is_an_error_that_names_it(column: str, field: str) -> None:
    schema = pa.schema([(column, pa.struct([(field, pa.list_(pa.bool_()))]))])
    with pytest.raises(CorruptLogError, match=rf"expected {column}\.{field} to be \w+, found list<"):
        check_columns("/t", schema)


SMALL_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("add", pa.struct([("path", pa.string()), ("size", pa.int64())])),
    ]
)


def flip_bits() -> None:
    """Open checkpoints with a flipped bit in every third byte of the footer, run their queries, and count errors."""
    whole = _checkpoint()
    footer = range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole) - 8)
    found = [_opens(_flipped(whole, place, place % 8)) for place in footer[::3]]
    print(found.count(True), found.count(False))


def _checkpoint() -> bytes:
    rows = [{"txn": {"appId": "a", "version": 1}}, *({"add": {"path": f"p{n}", "size": n}} for n in range(9))]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SMALL_SCHEMA), sink, row_group_size=5)
    return sink.getvalue()


def _flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def _opens(content: bytes) -> bool:
    store = MemoryLogStore()
    (status,) = checkpoint(3)
    file = store.put(status.name, content)
    provider = CheckpointProvider(version=3, files=(file,), kind=CheckpointKind("classic"), format="parquet")
    try:
        (part,) = open_checkpoint(store, provider, LOG_PATH).top_level
        read_columns(store, part, {"txn": "appId"})
    except CorruptLogError:
        return False
    return True


@pytest.mark.slow
def test_no_flipped_bit_of_a_footer_ends_the_process() -> None:
    flip = f"from {__name__} import flip_bits; flip_bits()"
    done = FORKS.run(flip)
    assert done.returncode == 0, done.stderr[-2000:]
    opened, refused = map(int, done.stdout.split())
    assert opened > 30
    assert refused > 100


def test_footer_is_not_cached() -> None:
    for _ in range(3):
        assert _opens(_checkpoint())
    gc.collect()
    assert not any(isinstance(each, FileParts) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [("add.size", -7), ("txn.version", 3), ("add.path", None), ("txn.appId", None), ("nothing", None)],
)
def test_least_value_is_that_of_an_integer_leaf_in_all_row_groups(leaf: str, expected: int | None) -> None:
    rows = [
        *({"add": {"path": "a", "size": size}} for size in (5, 4, -7, 9)),
        *({"txn": {"appId": "0", "version": version}} for version in (9, 3)),
    ]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=SMALL_SCHEMA), sink, row_group_size=2)
    assert parquet_footer.least_value(pq.read_metadata(sink), leaf) == expected


def test_least_value_is_unknown_without_statistics() -> None:
    sink = BytesIO()
    pq.write_table(pa.table({"size": [-1]}), sink, write_statistics=False)
    assert parquet_footer.least_value(pq.read_metadata(sink), "size") is None


def test_pages_that_arrow_does_not_support_do_not_count_as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"size": [1, 2]}), file)
    read_pages(io.BytesIO(file.getvalue()))

    # No available writer creates such a file: Arrow can read everything that it writes.
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", Mock(side_effect=pa.ArrowNotImplementedError("this type is not supported"))
    )
    with pytest.raises(UNREADABLE, match="this type is not supported"):
        read_pages(io.BytesIO(file.getvalue()))


def test_text_that_is_no_utf8_is_damage() -> None:
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    file = io.BytesIO()
    pq.write_table(pa.table({"path": broken}), file)
    with pytest.raises(UNREADABLE):
        read_pages(file)


def holding(*actions: dict[str, Any]) -> tuple[int, bool]:
    """Return what a checkpoint with actions contains, read in one page each."""
    store = MemoryLogStore()
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(actions)), file)
    found = store.put(checkpoint_file(3), file.getvalue())
    provider = CheckpointProvider(version=3, files=(found,), kind=CheckpointKind.CLASSIC, format="parquet")
    return read_every_page(store, open_checkpoint(store, provider, LOG_PATH))


def added(size: int) -> dict[str, Any]:
    return {"add": {"path": f"{size}", "size": size}, "remove": None}


def test_pages_show_the_number_of_files_and_negative_numbers() -> None:
    gone = {"add": None, "remove": {"path": "gone"}}
    assert holding(added(1), added(0), gone) == (2, False)
    assert holding(gone, added(1), added(-1)) == (2, True)


def test_numbers_of_types_that_only_spark_reads_are_not_checked() -> None:
    batch = pa.RecordBatch.from_pylist([{"add": {"path": "a", "size": -1.0}}])
    assert _contents_of(batch) == (1, False)
