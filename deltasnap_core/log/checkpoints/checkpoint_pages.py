"""Reads every page of a checkpoint: the only way to detect damaged pages, and to count its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptLogError, one_line
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, CheckpointFile
from deltasnap_core.log.checkpoints.checkpoint_rules import holds
from deltasnap_core.log.checkpoints.verified_parquet import damage_as, rows_of_batch, verified_parquet
from deltasnap_core.log.commits.action_lines import lines_with
from deltasnap_core.rules.totals.measures import has_negative_number, measures_of
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.log_store import LogStore

_MAX_THREADS = 4


def read_every_page(store: LogStore, contents: CheckpointContents) -> tuple[int, bool]:
    """Return the number of files in a checkpoint, and whether one has a negative number. Reads every page, in batches.

    Errors: CorruptLogError naming the file; StorageError.
    """
    parts = (*contents.top_level, *contents.sidecars)
    in_lines = lines_with(contents.lines, "add").num_rows, False
    at_once = min(os.cpu_count() or 1, _MAX_THREADS)
    return _together([in_lines, *map_concurrently(partial(_read, store), parts, at_once=at_once)])


def page_bytes(contents: CheckpointContents) -> int:
    """Return the size of the pages of a checkpoint, compressed, according to its footers."""
    footers = [part.metadata for part in (*contents.top_level, *contents.sidecars)]
    groups = [footer.row_group(index) for footer in footers for index in range(footer.num_row_groups)]
    return sum(group.column(each).total_compressed_size for group in groups for each in range(group.num_columns))


def _read(store: LogStore, part: CheckpointFile) -> tuple[int, bool]:
    path = part.file.path
    with damage_as(partial(_unreadable, path)), store.open(path) as stream:
        return _together(_contents_of(batch) for batch in _batches(stream, part.metadata))


def _unreadable(path: str, error: Exception) -> CorruptLogError:
    return CorruptLogError(path=path, reason=f"its pages could not be read: {one_line(error)}")


def _together(parts: Iterable[tuple[int, bool]]) -> tuple[int, bool]:
    parts = list(parts)
    return sum(count for count, _ in parts), any(is_negative for _, is_negative in parts)


def _contents_of(batch: pa.RecordBatch) -> tuple[int, bool]:
    adds = pa.Table.from_batches([batch]).select([name for name in batch.schema.names if name == "add"])
    num_files = int(holds(adds, "add.path").sum()) if adds.num_columns else 0
    try:
        return num_files, bool(pc.any(has_negative_number(measures_of(adds))).as_py())
    except (TypeError, pa.ArrowException):  # types that only Spark reads
        return num_files, False


def read_pages(stream: BinaryIO) -> None:
    """Read every page of a Parquet file, in batches of rows. Errors: UNREADABLE."""
    for _ in _batches(stream, None):
        pass


def _batches(stream: BinaryIO, metadata: pq.FileMetaData | None) -> Iterator[pa.RecordBatch]:
    parquet = verified_parquet(stream, metadata)
    groups = [parquet.metadata.row_group(index) for index in range(parquet.metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1)
    for batch in parquet.iter_batches(rows_of_batch(row_bytes)):
        batch.validate(full=True)
        yield batch
