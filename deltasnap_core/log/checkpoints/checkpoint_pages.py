"""Reads every page of a checkpoint: the only way to detect damaged pages."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptLogError, one_line
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, CheckpointFile
from deltasnap_core.log.checkpoints.verified_parquet import damage_as, verified_parquet
from deltasnap_core.storage.log_store import LogStore

_BATCH_BYTES = 32 << 20
_MAX_ROWS = 1 << 16
_MAX_THREADS = 4


def read_every_page(store: LogStore, contents: CheckpointContents) -> None:
    """Read every page of a checkpoint, in batches of rows. Errors: CorruptLogError naming the file; StorageError."""
    parts = (*contents.top_level, *contents.sidecars)
    threads = min(os.cpu_count() or 1, _MAX_THREADS, len(parts))
    if threads < 2:
        for part in parts:
            _read(store, part)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="deltasnap-pages") as pool:
        list(pool.map(lambda part: _read(store, part), parts))


def _read(store: LogStore, part: CheckpointFile) -> None:
    def corrupt(error: Exception) -> CorruptLogError:
        return CorruptLogError(path=part.file.path, reason=f"its pages could not be read: {one_line(error)}")

    with damage_as(corrupt), store.open(part.file.path) as stream:
        read_pages(stream, part.metadata)


def read_pages(stream: BinaryIO, metadata: pq.FileMetaData | None = None) -> None:
    """Read every page of a Parquet file, in batches of rows. metadata: None: read it too. Errors: UNREADABLE."""
    parquet = verified_parquet(stream, metadata)
    groups = [parquet.metadata.row_group(index) for index in range(parquet.metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1)
    rows = max(1, min(_MAX_ROWS, int(_BATCH_BYTES / max(row_bytes, 1))))
    for batch in parquet.iter_batches(rows):
        batch.validate(full=True)
