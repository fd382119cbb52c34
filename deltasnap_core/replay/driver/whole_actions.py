"""File actions with all their fields, read and replayed by Arrow in this process. No Spark.

What is written as only Spark is sure to read it gives UnusualError: Spark is asked then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type

from deltasnap_core.log.action_lines import lines_with
from deltasnap_core.log.checkpoint_contents import UNREADABLE, CheckpointFile
from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.replay.driver.checkpoint_shares import Share, leaves_of, map_shares, shares_of, unreadable
from deltasnap_core.replay.driver.reconciliation import newest, with_path_keys, without
from deltasnap_core.replay.spark.schemas import FILE_ACTIONS
from deltasnap_core.rules.measures import check_one_action, digest_of
from deltasnap_core.storage.log_store import LogStore

WHOLE = pa.schema([(field.name, to_arrow_type(field.dataType)) for field in FILE_ACTIONS])
"""One of `add` and `remove` is set in each row."""

_MAPS = ("partitionValues", "tags")
_IDENTITY = ("path", "deletionVector")


class UnusualError(Exception):
    """Something is written in a way that Spark may read otherwise than Arrow and Python."""


def newest_actions(store: LogStore, log: LoadedLog, log_path: str) -> pa.Table:
    """Return the newest action of each logical file (WHOLE), expired tombstones included, in any order.

    Errors: UnusualError; CorruptLogError naming the file that cannot be read.
    """
    lines = newest_lines(log.batch, log_path)
    parts = plain_parts(log)
    if any(map(has_statistics_as_struct_only, parts)):
        raise UnusualError("statistics as a struct")

    def read(share: Share, use_threads: bool) -> list[pa.Table]:
        try:
            return [whole(batch) for batch in share.batches(store, use_threads=use_threads)]
        except UNREADABLE as error:
            raise unreadable(share.part.file.path, error) from error

    columns = [f"{kind}.{field.name}" for kind in WHOLE.names for field in WHOLE.field(kind).type]
    shares = [share for part in parts for share in shares_of(part, leaves_of(part, columns))]
    held = pa.concat_tables([WHOLE.empty_table(), *chain.from_iterable(map_shares(shares, read))])
    return pa.concat_tables([without_changed(held, lines, log_path), decoded(lines["line"].to_pylist())])


def plain_parts(log: LoadedLog) -> tuple[CheckpointFile, ...]:
    """Return the files with the file actions of a checkpoint. Errors: UnusualError where some are in JSON."""
    if log.contents is None:
        return ()
    if lines_with(log.contents.lines, *WHOLE.names).num_rows:
        raise UnusualError("file actions in JSON")
    return log.contents.files_with_file_actions


def has_statistics_as_struct_only(part: CheckpointFile) -> bool:
    """Whether statistics of some `add` are not there as JSON."""
    return part.stats_parsed is not None and not part.has_stats


def newest_lines(batch: CommitBatch, log_path: str) -> pa.Table:
    """Return the newest line of each logical file among commits (LINES_SCHEMA, `path_key` for the path).

    Errors: UnusualError where the lines of some commit are not held.
    """
    if batch.large:
        raise UnusualError("a large commit")
    return newest(with_path_keys(batch.lines_with(*WHOLE.names), log_path))


def decoded(lines: Sequence[str]) -> pa.Table:
    """Return the file actions (WHOLE) of lines that were judged. Errors: UnusualError."""
    try:
        rows = [{name: actions.get(name) for name in WHOLE.names} for actions in map(decode_json, lines)]
        if not all(map(_has_texts, rows)):
            raise UnusualError("a map of other values than texts")
        return pa.Table.from_pylist(rows, schema=WHOLE)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UnusualError(str(error)) from error


def whole(rows: pa.Table) -> pa.Table:
    """Return the file actions (WHOLE) of a checkpoint, as far as its rows have fields.

    Errors: UnusualError; ValueError where a row holds both.
    """
    try:
        columns = [_of_type(_column(rows, field.name), field.type) for field in WHOLE]
    except pa.ArrowException as error:
        raise UnusualError(str(error)) from error
    actions = pa.table(columns, schema=WHOLE)
    paths = [pc.struct_field(column, "path") for column in columns]
    check_one_action(*paths)
    return actions.filter(pc.or_(*(path.is_valid() for path in paths)))


def without_changed(actions: pa.Table, changed: pa.Table, log_path: str) -> pa.Table:
    """Return the actions (WHOLE) of logical files of which there is no newer one. changed: with KEY."""
    if not changed.num_rows or not actions.num_rows:
        return actions
    keys = _keys_of(actions, log_path)
    kept = without(keys.append_column("row", pa.array(np.arange(actions.num_rows))), changed)
    return actions if kept.num_rows == actions.num_rows else actions.take(kept["row"])


def path_keys_of(actions: pa.Table, log_path: str) -> list[str]:
    """Return the keys of the logical files of actions (WHOLE), without their deletion vectors."""
    keys: list[str] = _keys_of(actions, log_path)["path_key"].to_pylist()
    return keys


def _keys_of(actions: pa.Table, log_path: str) -> pa.Table:
    """Return the keys (KEY) of the logical files of actions (WHOLE)."""
    identities = pa.table({name: _only(actions[name].combine_chunks(), _IDENTITY) for name in WHOLE.names})
    return with_path_keys(digest_of(identities).select(["path", "dv_id"]), log_path)


def _only(structs: pa.StructArray, names: Iterable[str]) -> pa.StructArray:
    fields = [structs.type.field(name) for name in names]
    arrays = [pc.struct_field(structs, field.name) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=structs.is_null())


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].combine_chunks() if name in rows.column_names else pa.nulls(rows.num_rows)


def _field(structs: pa.StructArray, name: str) -> pa.Array:
    has_field = structs.type.get_field_index(name) >= 0
    return pc.struct_field(structs, name) if has_field else pa.nulls(len(structs))


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
    raise UnusualError(f"{found} for {kind}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _has_texts(action: dict[str, Any]) -> bool:
    maps = [(action[kind] or {}).get(name) or {} for kind in WHOLE.names for name in _MAPS]
    return all(value is None or isinstance(value, str) for each in maps for value in each.values())
