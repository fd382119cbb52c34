"""Reads and replays file actions with all their fields, in Arrow.

Raises UnusualError for actions in a form that Arrow may read differently from Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointFile
from deltasnap_core.log.checkpoints.verified_parquet import damage_as
from deltasnap_core.log.commits.action_lines import lines_with
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.replay.driver.checkpoint_shares import Share, leaves_of, map_shares, shares_of, unreadable
from deltasnap_core.replay.driver.reconciliation import newest_file_actions, with_path_keys, without_keys_of
from deltasnap_core.replay.engine import UnusualError
from deltasnap_core.rules.file_actions import ADDS, FULL_ACTION, REMOVES, check_one_action, columns_of, fitted
from deltasnap_core.rules.paths import canonical_paths
from deltasnap_core.rules.totals.measures import measures_of
from deltasnap_core.storage.log_store import LogStore

_IDENTITY = ("path", "deletionVector")


def live_adds(store: LogStore, log: LoadedLog, log_path: str) -> pa.Table:
    """Return the live files of a version (ADDS), in any order; paths are canonical.

    Errors: as `reconciled_actions`.
    """
    adds = reconciled_actions(store, log, log_path, only_live=True)["add"].combine_chunks()
    # Not `drop_null`: a writer may fill the struct of a row with another action with nulls.
    rows = columns_of(adds.filter(pc.struct_field(adds, "path").is_valid()), ADDS.names)
    paths = canonical_paths(rows["path"].combine_chunks(), log_path)
    return rows.set_column(0, ADDS.field("path"), paths)


def reconciled_actions(store: LogStore, log: LoadedLog, log_path: str, *, only_live: bool = False) -> pa.Table:
    """Return the newest action of each logical file of a version (FULL_ACTION), in any order.

    only_live: read no more of a `remove` than its path, and of those in commits nothing.
    Errors: UnusualError; CorruptLogError naming the file that cannot be read.
    """
    lines = newest_lines(log.batch, log_path)
    parts = _plain_parts(log)
    removes = ("path",) if only_live else REMOVES.names
    columns = [*(f"add.{name}" for name in ADDS.names), *(f"remove.{name}" for name in removes)]
    shares = [share for part in parts for share in shares_of(part, leaves_of(part, columns))]
    found = map_shares(shares, partial(_read, store))
    in_checkpoint = pa.concat_tables([FULL_ACTION.empty_table(), *chain.from_iterable(found)])
    read = lines.filter(lines["deleted_at"].is_null()) if only_live else lines
    return pa.concat_tables([_without_changed(in_checkpoint, lines, log_path), decoded(read["line"].to_pylist())])


def path_keys_of(actions: pa.Table, log_path: str) -> pa.Array:
    """Return the path key of the file of each action (FULL_ACTION)."""
    return _keys_of(actions, log_path)["path_key"].combine_chunks()


def _read(store: LogStore, share: Share, use_threads: bool) -> list[pa.Table]:
    with damage_as(partial(unreadable, share.part.file.path)):
        return [full_actions(batch) for batch in share.batches(store, use_threads=use_threads)]


def newest_lines(batch: CommitBatch, log_path: str, *, within: Sequence[str] = ()) -> pa.Table:
    """Return the newest line of each logical file among commits (LINES_SCHEMA with `path_key` in place of the path).

    within: return the newest line of each (*within, logical file) instead.
    Errors: UnusualError if the lines of some commit are not kept in memory.
    """
    if batch.large:
        raise UnusualError("a large commit")
    return newest_file_actions(with_path_keys(batch.lines_with(*FULL_ACTION.names), log_path), within=within)


def decoded(lines: Sequence[str]) -> pa.Table:
    """Return the file actions (FULL_ACTION) of `classify_lines` lines. Errors: UnusualError."""
    try:
        rows = [{name: actions.get(name) for name in FULL_ACTION.names} for actions in map(decode_json, lines)]
        return pa.Table.from_pylist(rows, schema=FULL_ACTION)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UnusualError(str(error)) from error


def _plain_parts(log: LoadedLog) -> tuple[CheckpointFile, ...]:
    if log.checkpoint is None:
        return ()
    if lines_with(log.checkpoint.lines, *FULL_ACTION.names).num_rows:
        raise UnusualError("file actions of a checkpoint in JSON")
    parts = log.checkpoint.files_with_file_actions
    if any(part.stats_parsed is not None and not part.has_stats for part in parts):
        raise UnusualError("statistics as a struct")
    return parts


def full_actions(rows: pa.Table) -> pa.Table:
    """Return the file actions (FULL_ACTION) of a checkpoint. Missing columns and fields are null.

    Errors: UnusualError; ValueError if a row holds two actions.
    """
    try:
        columns = [fitted(_column(rows, field.name), field.type) for field in FULL_ACTION]
    except pa.ArrowException as error:
        raise UnusualError(str(error)) from error
    actions = pa.table(columns, schema=FULL_ACTION)
    actions.validate(full=True)  # checks that texts are UTF-8
    paths = [pc.struct_field(column, "path") for column in columns]
    check_one_action(*paths)
    return actions.filter(pc.or_(*(path.is_valid() for path in paths)))


def _without_changed(actions: pa.Table, changed: pa.Table, log_path: str) -> pa.Table:
    """Return the actions (FULL_ACTION) of logical files without a newer action. changed: has the columns KEY."""
    if not changed.num_rows or not actions.num_rows:
        return actions
    keys = _keys_of(actions, log_path)
    kept = without_keys_of(keys.append_column("row", pa.array(np.arange(actions.num_rows))), changed)
    return actions if kept.num_rows == actions.num_rows else actions.take(kept["row"])


def _keys_of(actions: pa.Table, log_path: str) -> pa.Table:
    """Return the keys (KEY) of the logical files of actions (FULL_ACTION)."""
    identities = pa.table({name: _only(actions[name].combine_chunks(), _IDENTITY) for name in FULL_ACTION.names})
    return with_path_keys(measures_of(identities).select(["path", "dv_id"]), log_path)


def _only(structs: pa.StructArray, names: Iterable[str]) -> pa.StructArray:
    fields = [structs.type.field(name) for name in names]
    arrays = [pc.struct_field(structs, field.name) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=structs.is_null())


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].combine_chunks() if name in rows.column_names else pa.nulls(rows.num_rows)
