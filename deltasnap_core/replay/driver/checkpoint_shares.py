"""Reads the Parquet files of a checkpoint in shares, one per thread, so that memory use is bounded."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.errors import CorruptLogError, one_line
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointFile
from deltasnap_core.log.checkpoints.verified_parquet import BATCH_ROWS, damage_as, rows_of_batch, verified_parquet
from deltasnap_core.storage.concurrency import ReadThreads, map_concurrently
from deltasnap_core.storage.log_store import LogStore

_MAX_THREADS = 8
_CLOSE_SECONDS = 1.0

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Row groups of a file for one thread. Small row groups are combined, because each read has a fixed cost.

    columns: the leaves to read.
    """

    part: CheckpointFile
    columns: tuple[str, ...]
    row_groups: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """The number of actions in these row groups."""
        return sum(self.part.metadata.row_group(group).num_rows for group in self.row_groups)

    def batches(self, store: LogStore, *, use_threads: bool = False) -> Generator[pa.Table, None, None]:
        """Yield the rows in batches, in file order.

        use_threads: decode columns in parallel, and the next batch while the caller uses the current one.
        Errors: CorruptLogError naming the file that cannot be read, or that has a path that is not UTF-8.
        """
        batches = self._batches(store, use_threads=use_threads)
        return _read_ahead(batches) if use_threads else batches

    def _batches(self, store: LogStore, *, use_threads: bool) -> Generator[pa.Table, None, None]:
        metadata, path = self.part.metadata, self.part.file.path
        groups = [metadata.row_group(group) for group in self.row_groups]
        batch_rows = rows_of_batch(sum(group.total_byte_size for group in groups) / max(self.num_rows, 1))
        with damage_as(partial(unreadable, path)), store.open(path) as stream:
            parquet = verified_parquet(stream, metadata)
            for batch in parquet.iter_batches(
                batch_rows, row_groups=list(self.row_groups), columns=list(self.columns), use_threads=use_threads
            ):
                _check_paths(batch)
                yield pa.Table.from_batches([batch])


def _check_paths(batch: pa.RecordBatch) -> None:
    """Raise ArrowInvalid if a path is not UTF-8. Parquet readers do not check this."""
    for column in batch.columns:
        if pa.types.is_struct(column.type) and column.type.get_field_index("path") >= 0:
            pc.struct_field(column, "path").validate(full=True)


def _read_ahead(batches: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield batches. Another thread reads the next one meanwhile."""
    threads = ReadThreads(1)
    following = threads.submit(partial(next, batches, None))
    try:
        while (batch := following.result()) is not None:
            following = threads.submit(partial(next, batches, None))
            yield batch
    finally:
        if wait([following], timeout=_CLOSE_SECONDS).done:  # otherwise the read may never end
            batches.close()


def unreadable(path: str, error: Exception) -> CorruptLogError:
    """Return the error for a file of a checkpoint that cannot be read, or that has invalid file actions."""
    return CorruptLogError(path=path, reason=f"file actions could not be read: {one_line(error)}")


def leaves_of(part: CheckpointFile, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the leaves of a file that lie in the given columns, such as `add.size` or `add.deletionVector`."""
    schema, names = part.metadata.schema, set(columns)
    leaves = (schema.column(index).path for index in range(part.metadata.num_columns))
    return tuple(leaf for leaf in leaves if any(above in names for above in accumulate(leaf.split("."), _below)))


def _below(parent: str, name: str) -> str:
    return f"{parent}.{name}"


def shares_of(part: CheckpointFile, columns: Iterable[str]) -> Iterator[Share]:
    """Yield the shares of a file, in row order."""
    columns = tuple(columns)
    metadata = part.metadata
    groups: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= BATCH_ROWS or group == metadata.num_row_groups - 1:
            yield Share(part=part, columns=columns, row_groups=tuple(groups))
            groups, rows = [], 0


def map_shares(shares: Sequence[S], function: Callable[[S, bool], T]) -> list[T]:
    """Return `function` of each share, in order, run in several threads.

    shares: of any type. The second argument of `function` is True if there are few shares: it may then use threads too.
    """
    at_once = min(os.cpu_count() or 1, _MAX_THREADS, len(shares))
    use_threads = len(shares) < 2 * at_once
    return map_concurrently(lambda share: function(share, use_threads), shares, at_once=at_once)
