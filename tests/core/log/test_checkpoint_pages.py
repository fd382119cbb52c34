"""Reading every page of a Parquet file."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core.log.checkpoints.checkpoint_pages import read_pages
from deltasnap_core.log.checkpoints.verified_parquet import UNREADABLE


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
