"""Looks up the live files of a version by their paths, on either engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.log.checkpoints.verified_parquet import damage_as
from deltasnap_core.log.commits.action_lines import FILE_ACTIONS, lines_with
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.replay.driver.checkpoint_shares import Share, leaves_of, map_shares, shares_of, unreadable
from deltasnap_core.replay.driver.full_actions import decoded, full_actions, newest_lines
from deltasnap_core.replay.driver.reconciliation import KEY, without_keys_of
from deltasnap_core.replay.engine import UnusualError
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.state_reconstruction import live_files, reconciled_files
from deltasnap_core.rules.file_actions import KEY_FIELDS, columns_of, fitted, values_of, vector_ids
from deltasnap_core.rules.paths import path_key_sql, path_keys
from deltasnap_core.scan.changes.changed_rows import FileAction, file_actions
from deltasnap_core.scan.version import LIVE_FILE_COLUMNS, Version
from deltasnap_core.storage.log_store import LogStore

_KEY = "path_key"


def live_files_before(version: Version, keys: Sequence[str]) -> list[FileAction]:
    """Return the live files of a version with some path keys, as adds. With a version, a LiveFilesBefore.

    Errors: CorruptLogError; CorruptStoreError; SparkRequiredError.
    """
    wanted = pa.array(keys, pa.string())
    files = Fallback(version).run(lambda found: found.live_files(wanted))
    return adds_of(version.number, values_of(files), version.log_path)


def adds_of(version: int, files: Iterable[dict[str, Any]], log_path: str) -> list[FileAction]:
    """Return live files of a version as adds. files: with the fields LIVE_FILE_COLUMNS."""
    return file_actions([{"commit_version": version, "add": each, "remove": None} for each in files], log_path=log_path)


def live_files_in_driver(store: LogStore, log: LoadedLog, log_path: str, wanted: pa.StringArray) -> pa.Table:
    """Return the live files (LIVE_FILE_COLUMNS) of a log with the wanted path keys.

    Commits are in memory. Of the checkpoint, only these columns are read. Errors: UnusualError; CorruptLogError.
    """
    newest = newest_lines(log.batch, log_path)
    newest = newest.filter(pc.is_in(newest[_KEY], wanted))
    added = decoded(newest.filter(newest["deleted_at"].is_null())["line"].to_pylist())
    older = _in_checkpoint(store, log, log_path, wanted)
    # Arrow cannot join rows with structs and maps.
    keys = _keys(older, log_path).append_column("row", pa.array(np.arange(older.num_rows)))
    older = older.take(without_keys_of(keys, newest)["row"])
    return pa.concat_tables([_adds(added), older])


def live_files_on_spark(reader: ActionReader, log: LoadedLog, wanted: pa.StringArray) -> pa.Table:
    """Return the same files, read by Spark. Errors: CorruptLogError."""
    with translated(log.files):
        files = reconciled_files(reader, log)
        if files is None:
            return _adds(decoded([]))
        keys = F.broadcast(arrow_rows(reader.spark, pa.table({_KEY: wanted})))
        return _with_keys(live_files(files), keys, reader.log_path).toArrow()


def _in_checkpoint(store: LogStore, log: LoadedLog, log_path: str, wanted: pa.StringArray) -> pa.Table:
    """Return the wanted files of the checkpoint (LIVE_FILE_COLUMNS)."""
    if log.checkpoint is not None and lines_with(log.checkpoint.lines, *FILE_ACTIONS).num_rows:
        raise UnusualError("file actions of a checkpoint in JSON")
    parts = () if log.checkpoint is None else log.checkpoint.files_with_file_actions
    columns = [f"add.{name}" for name in LIVE_FILE_COLUMNS]
    shares = [share for part in parts for share in shares_of(part, leaves_of(part, columns))]
    read = map_shares(shares, partial(_read, store, log_path, wanted))
    return pa.concat_tables([_adds(decoded([])), *chain.from_iterable(read)])


def _read(store: LogStore, log_path: str, wanted: pa.StringArray, share: Share, use_threads: bool) -> list[pa.Table]:
    with damage_as(partial(unreadable, share.part.file.path)):
        batches = share.batches(store, use_threads=use_threads)
        return [_adds(full_actions(_among(batch, log_path, wanted))) for batch in batches]


def _among(actions: pa.Table, log_path: str, wanted: pa.StringArray) -> pa.Table:
    """Return the adds with the wanted path keys."""
    if "add" not in actions.column_names:
        return actions.slice(0, 0)
    try:
        paths = fitted(pc.struct_field(actions["add"].combine_chunks(), "path"), pa.string())
    except pa.ArrowException as error:
        raise UnusualError(str(error)) from error
    is_add = paths.is_valid()
    return actions.filter(is_add).filter(pc.is_in(path_keys(paths.filter(is_add), log_path), wanted))


def _with_keys(files: DataFrame, keys: DataFrame, log_path: str) -> DataFrame:
    keyed = files.select(*LIVE_FILE_COLUMNS, F.expr(path_key_sql("path", log_path)).alias(_KEY))
    return keyed.join(keys, _KEY, "left_semi").select(*LIVE_FILE_COLUMNS)


def _adds(actions: pa.Table) -> pa.Table:
    """Return the adds of file actions (FULL_ACTION), with LIVE_FILE_COLUMNS."""
    return columns_of(actions["add"].combine_chunks().drop_null(), LIVE_FILE_COLUMNS)


def _keys(adds: pa.Table, log_path: str) -> pa.Table:
    """Return the keys (KEY) of adds."""
    vectors = adds["deletionVector"].combine_chunks()
    ids = pc.fill_null(vector_ids(*(pc.struct_field(vectors, name) for name in KEY_FIELDS)), "")
    return pa.table([path_keys(adds["path"].combine_chunks(), log_path), ids], names=KEY)
