"""The live files that some partition values leave, found by Arrow in this process. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from deltasnap_core.log.action_lines import FILE_ACTIONS, lines_with, structs
from deltasnap_core.log.checkpoint_adds import accepted_adds, partitioned_shares
from deltasnap_core.log.checkpoint_contents import CheckpointFile
from deltasnap_core.log.file_digest import digest_of
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.partition_texts import CodedPartitions, PartitionTexts, coded
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.replay.local_replay import newest, with_path_keys, without
from deltasnap_core.replay.path_keys import canonical_paths
from deltasnap_core.replay.schemas import ADD
from deltasnap_core.storage.log_store import LogStore

MOST_PARTITIONS = 100_000
"""Of more different partition values Spark judges better than we do, row by row."""

MOST_CHOSEN, MOST_CHOSEN_BYTES = 100_000, 32 << 20
"""More files than this are Spark's to look at: to send it so many takes as long."""

ADDS = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in ADD])
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
) -> pa.Table | None:
    """Return the live files whose partition values are accepted (ADDS), in any order. None: they are Spark's to find.

    partitions: the partition columns, by their physical names. fields: of AddFile; the others are null.
    Errors: CorruptLogError naming the file that cannot be read.
    """
    parts = () if log.contents is None else log.contents.files_with_file_actions
    has_lines = log.contents is not None and lines_with(log.contents.lines, *FILE_ACTIONS).num_rows > 0
    if has_lines or log.batch.large or ("stats" in fields and any(map(_has_struct_only, parts))):
        return None
    shares = partitioned_shares(store, parts, partitions)
    lines = newest(with_path_keys(log.batch.lines_with(*FILE_ACTIONS), log_path))
    added = lines.filter(lines["deleted_at"].is_null())
    values = _partitions_of(added, partitions)
    if shares is None or values is None:
        return None
    texts = set(chain(values.texts, *(share.values.texts for share in shares)))
    if len(texts) > MOST_PARTITIONS:
        return None
    found = accepting(texts)
    if found is None:
        return None
    accepted = frozenset(found)
    new = added.filter(pa.array(values.among(accepted)))
    most = new.num_rows + sum(int(share.values.among(accepted).sum()) for share in shares)
    if most > MOST_CHOSEN:
        return None
    read = accepted_adds(store, shares, accepted, [*fields, "path", "deletionVector"])
    try:
        held = pa.concat_tables([ADDS.empty_table(), *map(_conformed, read)])
        kept = _without_changed(held, lines, log_path)
        rows = pa.concat_tables([kept, _decoded(new["line"].to_pylist())])
    except (_UnusualError, pa.ArrowException, TypeError, ValueError):
        return None
    if rows.nbytes > MOST_CHOSEN_BYTES:
        return None
    paths = canonical_paths(rows["path"].combine_chunks(), log_path)
    return rows.set_column(0, ADDS.field("path"), paths)


def _has_struct_only(part: CheckpointFile) -> bool:
    return part.stats_parsed is not None and not part.has_stats


class _UnusualError(Exception):
    """A checkpoint has a field in a type that Spark may read otherwise than Arrow."""


def _partitions_of(adds: pa.Table, partitions: Sequence[str]) -> CodedPartitions | None:
    """Return the partition values of lines with `add`; None: they hold others than texts."""
    values = pa.struct([(name, pa.string()) for name in partitions])
    try:
        found = structs(adds, pa.schema([("add", pa.struct([("partitionValues", values)]))]))
    except ValueError:
        return None
    columns = pc.struct_field(found["add"].combine_chunks(), "partitionValues")
    return coded((pc.struct_field(columns, name).dictionary_encode() for name in partitions), adds.num_rows)


def _decoded(lines: Sequence[str]) -> pa.Table:
    adds: list[dict[str, Any]] = [decode_json(line)["add"] for line in lines]
    return pa.Table.from_pylist(adds, schema=ADDS)


def _without_changed(adds: pa.Table, changed: pa.Table, log_path: str) -> pa.Table:
    """Return the files (ADDS) of which there is no newer action."""
    if not changed.num_rows or not adds.num_rows:
        return adds
    identities = adds.select(["path", "deletionVector"]).to_struct_array()
    digests = digest_of(pa.table({"add": identities})).select(["path", "dv_id"])
    keys = with_path_keys(digests, log_path).append_column("row", pa.array(np.arange(adds.num_rows)))
    kept = without(keys, changed)
    return adds if kept.num_rows == adds.num_rows else adds.take(kept["row"])


def _conformed(add: pa.StructArray) -> pa.Table:
    """Return `add` of a checkpoint as ADDS. Errors: _UnusualError."""
    columns = [_of_type(_field(add, field.name), field.type) for field in ADDS]
    return pa.table(columns, schema=ADDS)


def _field(struct: pa.StructArray, name: str) -> pa.Array:
    has_field = struct.type.get_field_index(name) >= 0
    return pc.struct_field(struct, name) if has_field else pa.nulls(len(struct))


def _of_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    found = values.type
    if found.equals(kind):
        return values
    if pa.types.is_null(found):
        return pa.nulls(len(values), kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(found):
        fields = [_of_type(_field(values, field.name), field.type) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    for is_kind in (pa.types.is_map, pa.types.is_integer, _is_text):
        if is_kind(kind) and is_kind(found):
            return values.cast(kind)
    raise _UnusualError(f"{found} for {kind}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))
