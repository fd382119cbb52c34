"""The file actions of a checkpoint in short, without Spark: some at a time, so that memory does not grow with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.action_lines import FILE_ACTIONS, lines_with
from deltasnap_core.log.checkpoint_contents import UNREADABLE, CheckpointContents, CheckpointFile
from deltasnap_core.log.file_digest import FILE_DIGEST, digest_of
from deltasnap_core.storage.log_store import LogStore

_VECTOR = ("storageType", "pathOrInlineDv", "offset")
_COLUMNS = (
    "add.path",
    "add.size",
    "add.stats",
    "add.stats_parsed.numRecords",
    "add.deletionVector.cardinality",
    "remove.path",
    "remove.deletionTimestamp",
    *(f"{kind}.deletionVector.{field}" for kind in FILE_ACTIONS for field in _VECTOR),
)
_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 1 << 16
_MOST_THREADS = 8

T = TypeVar("T")


def map_file_digests(store: LogStore, contents: CheckpointContents, function: Callable[[pa.Table], T]) -> list[T]:
    """Return `function` of all the file actions (FILE_DIGEST), called with some at a time, in several threads.

    Errors: CorruptLogError naming the file that cannot be read.
    """
    groups = [
        (part, group) for part in contents.files_with_file_actions for group in range(part.metadata.num_row_groups)
    ]
    threads = min(os.cpu_count() or 1, _MOST_THREADS, len(groups))
    # Where there are too few row groups to share out, their columns are.
    use_threads = len(groups) < 2 * threads

    def of_group(part_and_group: tuple[CheckpointFile, int]) -> list[T]:
        return [function(digest) for digest in _digests(store, *part_and_group, use_threads=use_threads)]

    in_json = lines_with(contents.lines, *FILE_ACTIONS).select(FILE_DIGEST.names)
    found = [function(in_json)] if in_json.num_rows else []
    if threads < 2:
        return found + list(chain.from_iterable(map(of_group, groups)))
    with ThreadPoolExecutor(threads, thread_name_prefix="deltasnap-checkpoint") as pool:
        return found + list(chain.from_iterable(pool.map(of_group, groups)))


def _digests(store: LogStore, part: CheckpointFile, group: int, *, use_threads: bool) -> Iterator[pa.Table]:
    metadata = part.metadata
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    columns = [name for name in names if name in _COLUMNS]
    chunks = [metadata.row_group(group).column(names.index(name)) for name in columns]
    rows = metadata.row_group(group).num_rows
    row_bytes = sum(chunk.total_uncompressed_size for chunk in chunks) / max(rows, 1)
    batch_rows = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(row_bytes, 1))))
    try:
        with store.open(part.file.path) as stream:
            # Where the writer left checksums in the pages, a flipped byte is an error and not another value.
            parquet = pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True)
            for batch in parquet.iter_batches(batch_rows, row_groups=[group], columns=columns, use_threads=use_threads):
                digest = digest_of(pa.Table.from_batches([batch]))
                yield digest.filter(digest["path"].is_valid()) if digest["path"].null_count else digest
    except UNREADABLE as error:
        reason = f"file actions could not be read: {' '.join(str(error).split())}"
        raise CorruptLogError(path=part.file.path, reason=reason) from error
