"""Builders for the tests of damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def flip(file: Path) -> None:
    """Flip the bytes of the data pages; the footer stays as it is."""
    content = bytearray(file.read_bytes())
    (footer,) = [len(content) - 8 - int.from_bytes(content[-8:-4], "little")]
    metadata = pq.read_metadata(file)
    columns = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    for column in (c for c in columns if c.path_in_schema.startswith("add.")):
        start = column.dictionary_page_offset or column.data_page_offset
        for at in range(start, min(start + column.total_compressed_size, footer)):
            content[at] ^= 0xFF
    keep_time(file, lambda: file.write_bytes(content))


def keep_time(file: Path, change: Callable[[], Any]) -> None:
    before = file.stat()
    change()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
