"""The file actions of a checkpoint in short, without Spark: some at a time, so that memory does not grow with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.action_lines import FILE_ACTIONS, lines_with
from deltasnap_core.log.checkpoint_contents import UNREADABLE, CheckpointContents, CheckpointFile
from deltasnap_core.log.file_digest import DIGESTED_COLUMNS, FILE_DIGEST, digest_of
from deltasnap_core.storage.log_store import LogStore

_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 1 << 16
_MOST_THREADS = 8

T = TypeVar("T")


def map_file_digests(store: LogStore, contents: CheckpointContents, function: Callable[[pa.Table], T]) -> list[T]:
    """Return `function` of all the file actions (FILE_DIGEST), called with some at a time, in several threads.

    Errors: CorruptLogError naming the file that cannot be read.
    """
    shares = [share for part in contents.files_with_file_actions for share in _shares(part)]
    threads = min(os.cpu_count() or 1, _MOST_THREADS, len(shares))
    # Where there are too few row groups to share out, their columns are.
    use_threads = len(shares) < 2 * threads

    def of_share(share: _Share) -> list[T]:
        return [function(digest) for digest in _gathered(_digests(store, share, use_threads=use_threads))]

    in_json = lines_with(contents.lines, *FILE_ACTIONS).select(FILE_DIGEST.names)
    found = [function(in_json)] if in_json.num_rows else []
    if threads < 2:
        return found + list(chain.from_iterable(map(of_share, shares)))
    with ThreadPoolExecutor(threads, thread_name_prefix="deltasnap-checkpoint") as pool:
        return found + list(chain.from_iterable(pool.map(of_share, shares)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Row groups of a file for one thread: of many small ones some together, as each look takes its time.

    columns: what is read of them.
    """

    part: CheckpointFile
    columns: list[str]
    row_groups: list[int]


def _shares(part: CheckpointFile) -> Iterator[_Share]:
    metadata = part.metadata
    wanted = set(DIGESTED_COLUMNS) - ({"add.stats"} if part.has_num_records else set())
    columns = [name for i in range(metadata.num_columns) if (name := metadata.schema.column(i).path) in wanted]
    groups: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= _BATCH_ROWS:
            yield _Share(part=part, columns=columns, row_groups=groups)
            groups, rows = [], 0
    if groups:
        yield _Share(part=part, columns=columns, row_groups=groups)


def _gathered(digests: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield digests some together: wide rows come few at a time."""
    found: list[pa.Table] = []
    for digest in digests:
        found.append(digest)
        if sum(each.num_rows for each in found) >= _BATCH_ROWS:
            yield pa.concat_tables(found).combine_chunks()
            found.clear()
    if found:
        yield pa.concat_tables(found).combine_chunks()


def _digests(store: LogStore, share: _Share, *, use_threads: bool) -> Iterator[pa.Table]:
    metadata, path, columns = share.part.metadata, share.part.file.path, share.columns
    groups = [metadata.row_group(group) for group in share.row_groups]
    # Of all columns: asked for those of one, pyarrow looks at its size statistics, and aborts where they are damaged.
    size = sum(group.total_byte_size for group in groups)
    row_bytes = max(size / max(sum(group.num_rows for group in groups), 1), 1)
    batch_rows = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / row_bytes)))
    try:
        with store.open(path) as stream:
            # Where the writer left checksums in the pages, a flipped byte is an error and not another value.
            parquet = pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True)
            for batch in parquet.iter_batches(
                batch_rows, row_groups=share.row_groups, columns=columns, use_threads=use_threads
            ):
                digest = digest_of(pa.Table.from_batches([batch]))
                yield digest.filter(digest["path"].is_valid()) if digest["path"].null_count else digest
    except UNREADABLE as error:
        reason = f"file actions could not be read: {' '.join(str(error).split())}"
        raise CorruptLogError(path=path, reason=reason) from error
