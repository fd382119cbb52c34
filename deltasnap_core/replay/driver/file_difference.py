"""The files that only one of two versions has, without Spark: from the commits between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.errors import DeltaSnapError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.driver.checkpoint_measures import map_measures
from deltasnap_core.replay.driver.reconciliation import KEY, newest_file_actions, with_path_keys, without_keys_of
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.storage.log_store import LogStore

_COLUMNS = {"logged": "path", "dv_id": "vector_id", "size": "size"}


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The logical files that only the later version has, and those that only the earlier one has.

    added, removed: path (text, as in the log), vector_id (text, empty: no deletion vector), size (int64, bytes; null:
                    the log does not state it). In any order.
    assumed:        the error of reading the files of the earlier version; None: they were read. After an error, the
                    result is derived from the commits alone: the earlier version has a file if the first commit
                    that names the file removes it.
    """

    added: pa.Table
    removed: pa.Table
    assumed: DeltaSnapError | None


def file_difference(store: LogStore, log_path: str, before: VersionLog, commits: CommitBatch) -> FileDifference | None:
    """Return the files that commits after a version add and remove; None: too many to compare in memory.

    Keeps only those files of the version in memory that the commits name.
    """
    measures = commits.measures
    if measures is None:
        return None
    actions = _keyed(measures, log_path)
    changed = newest_file_actions(actions)
    live: pa.Table | None = _first_removed(actions)
    assumed: DeltaSnapError | None = None
    try:
        if changed.num_rows:
            live = Fallback(before.replayable).run(partial(_live_among, store, log_path, changed))
    except DeltaSnapError as error:  # the commits can be read nevertheless
        assumed = error
    if live is None:
        return None
    is_live = changed["deleted_at"].is_null()
    added, gone = changed.filter(is_live), changed.filter(pc.invert(is_live))
    return FileDifference(
        added=_shown(without_keys_of(added, live)), removed=_shown(_among(live, gone)), assumed=assumed
    )


def _live_among(store: LogStore, log_path: str, wanted: pa.Table, log: LoadedLog) -> pa.Table | None:
    """Return the live files of a loaded log whose keys are in `wanted`; None: its commits are too many."""
    measures = log.batch.measures
    if measures is None:
        return None
    own = _among(newest_file_actions(_keyed(measures, log_path)), wanted).drop_columns(
        ["commit_version", "line_number"]
    )

    read = partial(_of_checkpoint, log_path, wanted, own)
    found = [] if log.checkpoint is None else map_measures(store, log.checkpoint, read)
    rows = pa.concat_tables([own, *found])
    return rows.filter(rows["deleted_at"].is_null())


def _of_checkpoint(log_path: str, wanted: pa.Table, own: pa.Table, batch: pa.Table) -> pa.Table:
    """Return the wanted files of a checkpoint. own: those with an action in the commits."""
    return without_keys_of(_among(_keyed(batch, log_path), wanted), own)


def _keyed(measures: pa.Table, log_path: str) -> pa.Table:
    """Return measured actions with `path_key`, and `logged`: the path as in the log."""
    return with_path_keys(measures.append_column("logged", measures["path"]), log_path)


def _first_removed(actions: pa.Table) -> pa.Table:
    """Return the removes in the first commit that names their file, even if that commit adds it again."""
    first = actions.group_by(KEY).aggregate([("commit_version", "min")])
    removes = actions.filter(actions["deleted_at"].is_valid()).join(first, KEY)
    is_first = pc.equal(removes["commit_version"], removes["commit_version_min"])
    return newest_file_actions(removes.filter(is_first).select(actions.column_names).cast(actions.schema))


def _among(rows: pa.Table, wanted: pa.Table) -> pa.Table:
    near = rows.filter(pc.is_in(rows["path_key"], wanted["path_key"].combine_chunks()))
    return near.join(wanted.select(KEY), KEY, join_type="left semi").select(rows.column_names).cast(rows.schema)


def _shown(rows: pa.Table) -> pa.Table:
    return rows.select(list(_COLUMNS)).rename_columns(list(_COLUMNS.values()))
