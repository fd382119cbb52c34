"""Reading every page of a Parquet file."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core.log.checkpoints.checkpoint_contents import open_checkpoint
from deltasnap_core.log.checkpoints.checkpoint_pages import ReadPages, _contents_of, read_every_page, read_pages
from deltasnap_core.log.checkpoints.verified_parquet import UNREADABLE
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, checkpoint_file
from tests.builders import LOG_PATH, MemoryLogStore


def test_pages_that_arrow_does_not_support_do_not_count_as_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"size": [1, 2]}), file)
    read_pages(io.BytesIO(file.getvalue()))

    # No available writer creates such a file: Arrow can read everything that it writes.
    def unsupported(*_: Any, **__: Any) -> None:
        raise pa.ArrowNotImplementedError("this type is not supported")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", unsupported)
    with pytest.raises(UNREADABLE, match="this type is not supported"):
        read_pages(io.BytesIO(file.getvalue()))


def test_text_that_is_no_utf8_is_damage() -> None:
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    file = io.BytesIO()
    pq.write_table(pa.table({"path": broken}), file)
    with pytest.raises(UNREADABLE):
        read_pages(file)


def holding(*actions: dict[str, Any]) -> ReadPages:
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
    assert holding(added(1), added(0), gone) == ReadPages(2, has_negative_number=False)
    assert holding(gone, added(1), added(-1)) == ReadPages(2, has_negative_number=True)
    parts = [ReadPages(2, has_negative_number=False), ReadPages(3, has_negative_number=True)]
    assert ReadPages.of(parts) == ReadPages(5, has_negative_number=True)
    assert ReadPages.of([]) == ReadPages(0, has_negative_number=False)


def test_numbers_of_types_that_only_spark_reads_are_not_checked() -> None:
    batch = pa.RecordBatch.from_pylist([{"add": {"path": "a", "size": -1.0}}])
    assert _contents_of(batch) == ReadPages(1, has_negative_number=False)
