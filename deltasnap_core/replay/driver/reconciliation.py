"""Action reconciliation in Arrow. Counterpart: `replay/spark/state_reconstruction.py`.

Rows are measured file actions with the keys of their logical files: MEASURED_ACTION with `path_key` in place of `path`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.rules.paths import path_keys

KEY = ["path_key", "dv_id"]


def with_path_keys(actions: pa.Table, log_path: str) -> pa.Table:
    """Return measured actions with `path_key` in place of `path`."""
    keys = [path_keys(chunk, log_path) for chunk in actions["path"].chunks]
    return actions.set_column(actions.column_names.index("path"), "path_key", pa.chunked_array(keys, pa.string()))


def measured_commits(batch: CommitBatch, log_path: str) -> pa.Table:
    """Return the file actions of commits, with `path_key` in place of `path`. batch: must have `measures`."""
    measures = batch.measures
    assert measures is not None  # without them, the engine is Spark
    return with_path_keys(measures, log_path)


def newest_file_actions(commits: pa.Table, *, within: Sequence[str] = ()) -> pa.Table:
    """Return the newest action of each logical file among commits; within: of each (*within, logical file).

    In: rows with commit_version and line_number; each pair of the two is unique.

    If one commit has an add and a remove of one key, the add wins, as in `replay/spark/state_reconstruction.py`.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    if not commits.num_rows:
        return commits
    version, line = commits["commit_version"].to_numpy(), commits["line_number"].to_numpy().astype(np.int64)
    is_add = commits["deleted_at"].is_null().to_numpy()
    lines = int(line.max()) + 1
    if (int(version.max()) - int(version.min()) + 1) * 2 * lines >= 1 << 63:  # versions far apart
        version = np.unique(version, return_inverse=True)[1]
    rank = pa.array(((version - version.min()) * 2 + is_add) * lines + line)
    # Group by path alone if no file has a deletion vector: this takes half the time.
    key = KEY if pc.any(pc.not_equal(commits["dv_id"], "")).as_py() else KEY[:1]
    key = [*within, *key]
    last = commits.select(key).append_column("rank", rank).group_by(key).aggregate([("rank", "max")])
    if last.num_rows == commits.num_rows:
        return commits
    return commits.filter(pc.is_in(rank, last["rank_max"].combine_chunks()))


def without_keys_of(rows: pa.Table, changed: pa.Table) -> pa.Table:
    """Return the rows whose logical file is not in `changed`. rows: KEY and any other columns."""
    has_path = pc.is_in(rows["path_key"], changed["path_key"].combine_chunks())
    if not pc.any(has_path).as_py():
        return rows
    named = rows.filter(has_path)
    keys = named.select(KEY).append_column("row", pa.array(np.arange(named.num_rows)))  # a join takes no structs
    rest = keys.join(changed.select(KEY), KEY, join_type="left anti")["row"]
    return pa.concat_tables([rows.filter(pc.invert(has_path)), named.take(rest)])
