"""Damaged footers of checkpoints: an error, never a crash."""

from __future__ import annotations

import gc
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoints import parquet_footer
from deltasnap_core.log.checkpoints.checkpoint_contents import open_checkpoint, read_columns
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint
from tests.core.storage.concurrency_builders import FORKS

SCHEMA = pa.schema(
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
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, row_group_size=5)
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
    assert not any(isinstance(each, parquet_footer._NothingToRead) for each in gc.get_objects())


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
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, row_group_size=2)
    assert parquet_footer.least_value(pq.read_metadata(sink), leaf) == expected


def test_least_value_is_unknown_without_statistics() -> None:
    sink = BytesIO()
    pq.write_table(pa.table({"size": [-1]}), sink, write_statistics=False)
    assert parquet_footer.least_value(pq.read_metadata(sink), "size") is None
