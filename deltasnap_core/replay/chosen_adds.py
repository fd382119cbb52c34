"""The live files that some partition values leave, found by Arrow in this process. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.action_lines import structs
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.partition_texts import CodedPartitions, PartitionTexts, coded
from deltasnap_core.log.value_ranges import ValueRange, may_hold
from deltasnap_core.replay.driver.checkpoint_adds import accepted_adds, partitioned_shares
from deltasnap_core.replay.driver.whole_actions import (
    WHOLE,
    UnusualError,
    decoded,
    has_statistics_as_struct_only,
    newest_lines,
    plain_parts,
    whole,
    without_changed,
)
from deltasnap_core.rules.paths import canonical_paths
from deltasnap_core.storage.log_store import LogStore

MOST_PARTITIONS = 100_000
"""Of more different partition values Spark judges better than we do, row by row."""

MOST_CHOSEN, MOST_CHOSEN_BYTES = 100_000, 32 << 20
"""More files than this are Spark's to look at: to send it so many takes as long."""

ADDS = pa.schema(list(WHOLE.field("add").type))
"""The columns of AddFile."""

Accepting = Callable[[Collection[PartitionTexts]], Collection[PartitionTexts] | None]
"""Tells which of some partition values are accepted; None: some of them cannot be judged."""


def chosen_adds(
    store: LogStore,
    log: LoadedLog,
    log_path: str,
    *,
    partitions: Sequence[str],
    accepting: Accepting,
    fields: Sequence[str],
    ranges: Sequence[ValueRange] = (),
) -> pa.Table:
    """Return the live files whose partition values are accepted (ADDS), in any order.

    partitions: the partition columns, by their physical names. fields: of AddFile; the others are null.
    ranges: of the files of a checkpoint those are left out whose statistics are outside; `fields` has `stats` then.
    Errors: UnusualError where they are Spark's to find; CorruptLogError naming the file that cannot be read.
    """
    parts = plain_parts(log)
    if "stats" in fields and any(map(has_statistics_as_struct_only, parts)):
        raise UnusualError("statistics as a struct")
    lines = newest_lines(log.batch, log_path)
    added = lines.filter(lines["deleted_at"].is_null())
    values = _partitions_of(added, partitions)
    shares = partitioned_shares(store, parts, partitions)
    if shares is None:
        raise UnusualError("partition values")
    texts = set(chain(values.texts, *(share.values.texts for share in shares)))
    judged = accepting(texts) if len(texts) <= MOST_PARTITIONS else None
    if judged is None:
        raise UnusualError("partition values that cannot be judged here")
    accepted = frozenset(judged)
    new = added.filter(pa.array(values.among(accepted)))
    count = new.num_rows + sum(int(share.values.among(accepted).sum()) for share in shares)
    sieve = _Sieve(ranges, MOST_CHOSEN - new.num_rows)
    if count > MOST_CHOSEN and not ranges:
        raise UnusualError("many files")
    read = accepted_adds(store, shares, accepted, [*fields, "path", "deletionVector"], sieve.left)
    held = pa.concat_tables([WHOLE.empty_table(), *(whole(pa.table({"add": add})) for add in read)])
    kept = pa.concat_tables([without_changed(held, lines, log_path), decoded(new["line"].to_pylist())])
    rows = pa.Table.from_struct_array(kept["add"].combine_chunks())
    if rows.nbytes > MOST_CHOSEN_BYTES:
        raise UnusualError("many bytes")
    return rows.set_column(0, ADDS.field("path"), canonical_paths(rows["path"].combine_chunks(), log_path))


class _Sieve:
    """Leaves the files whose statistics are in ranges, as long as they are not too many."""

    def __init__(self, ranges: Sequence[ValueRange], most: int) -> None:
        self._ranges = ranges
        self._room = most
        self._lock = Lock()

    def left(self, adds: pa.StructArray) -> pa.StructArray:
        has_texts = adds.type.get_field_index("stats") >= 0 and pa.types.is_string(adds.type.field("stats").type)
        kept = may_hold(pc.struct_field(adds, "stats"), self._ranges) if self._ranges and has_texts else None
        adds = adds if kept is None else adds.filter(kept)
        with self._lock:
            self._room -= len(adds)
            if self._room < 0:
                raise UnusualError("many files")
        return adds


def _partitions_of(adds: pa.Table, partitions: Sequence[str]) -> CodedPartitions:
    """Return the partition values of lines with `add`. Errors: UnusualError where they hold others than texts."""
    values = pa.struct([(name, pa.string()) for name in partitions])
    try:
        found = structs(adds, pa.schema([("add", pa.struct([("partitionValues", values)]))]))
    except ValueError as error:
        raise UnusualError(str(error)) from error
    columns = pc.struct_field(found["add"].combine_chunks(), "partitionValues")
    return coded((pc.struct_field(columns, name).dictionary_encode() for name in partitions), adds.num_rows)
