"""The measures of a checkpoint's file actions, without Spark. Reads them in batches, so that memory use is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, CheckpointFile
from deltasnap_core.log.checkpoints.verified_parquet import BATCH_ROWS, damage_as
from deltasnap_core.log.commits.action_lines import FILE_ACTIONS, lines_with
from deltasnap_core.replay.driver.checkpoint_shares import Share, leaves_of, map_shares, shares_of, unreadable
from deltasnap_core.rules.totals.measures import MEASURED_ACTION, MEASURED_COLUMNS, measures_of
from deltasnap_core.storage.log_store import LogStore

T = TypeVar("T")


def map_measures(store: LogStore, contents: CheckpointContents, function: Callable[[pa.Table], T]) -> list[T]:
    """Return the results of `function`, called with batches of the file actions (MEASURED_ACTION), in several threads.

    Errors: CorruptLogError naming the file that cannot be read.
    """

    shares = [share for part in contents.files_with_file_actions for share in shares_of(part, _leaves_to_read(part))]
    in_json = lines_with(contents.lines, *FILE_ACTIONS).select(MEASURED_ACTION.names)
    found = [function(in_json)] if in_json.num_rows else []
    return found + list(chain.from_iterable(map_shares(shares, partial(_results, store, function))))


def _results(store: LogStore, function: Callable[[pa.Table], T], share: Share, use_threads: bool) -> list[T]:
    return [function(rows) for rows in _gathered(_measures(store, share, use_threads=use_threads))]


def _leaves_to_read(part: CheckpointFile) -> tuple[str, ...]:
    wanted = set(MEASURED_COLUMNS) - ({"add.stats"} if part.has_num_records else set())
    return leaves_of(part, wanted)


def _gathered(measures: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield measures in larger tables. A file with wide rows is read in small batches."""
    found: list[pa.Table] = []
    for rows in measures:
        found.append(rows)
        if sum(each.num_rows for each in found) >= BATCH_ROWS:
            yield pa.concat_tables(found).combine_chunks()
            found.clear()
    if found:
        yield pa.concat_tables(found).combine_chunks()


def _measures(store: LogStore, share: Share, *, use_threads: bool) -> Iterator[pa.Table]:
    for actions in share.batches(store, use_threads=use_threads):
        with damage_as(partial(unreadable, share.part.file.path)):
            rows = measures_of(actions)
        yield rows.filter(rows["path"].is_valid()) if rows["path"].null_count else rows
