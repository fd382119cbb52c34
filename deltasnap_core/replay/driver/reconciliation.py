"""File actions that one process can look at, replayed by Arrow. No Spark: what is here, its queries say too.

Rows are digests with the keys of their logical files: FILE_DIGEST and `path_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.retention import Retention
from deltasnap_core.rules.aggregates import Group, groups_of
from deltasnap_core.rules.paths import path_keys

KEY = ["path_key", "dv_id"]


def with_path_keys(digests: pa.Table, log_path: str) -> pa.Table:
    """Return digests with `path_key` in place of their path."""
    keys = [path_keys(chunk, log_path) for chunk in digests["path"].chunks]
    return digests.set_column(digests.column_names.index("path"), "path_key", pa.chunked_array(keys, pa.string()))


def newest(commits: pa.Table) -> pa.Table:
    """Return the newest action of each logical file among commits.

    In: rows with commit_version and line_number, which together no two rows may have.

    An add and a remove of one key in one commit: the add wins, as in `newest_file_actions`.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    if not commits.num_rows:
        return commits
    version, line = commits["commit_version"].to_numpy(), commits["line_number"].to_numpy().astype(np.int64)
    is_add = commits["deleted_at"].is_null().to_numpy()
    rank = pa.array(((version - version.min()) * 2 + is_add) * (line.max() + 1) + line)
    # Grouped by paths alone where they tell files apart, which takes half the time.
    key = KEY if pc.any(pc.not_equal(commits["dv_id"], "")).as_py() else KEY[:1]
    last = commits.select(key).append_column("rank", rank).group_by(key).aggregate([("rank", "max")])
    if last.num_rows == commits.num_rows:
        return commits
    return commits.filter(pc.is_in(rank, last["rank_max"].combine_chunks()))


def without(rows: pa.Table, changed: pa.Table) -> pa.Table:
    """Return the rows whose logical file is not among the changed ones."""
    has_path = pc.is_in(rows["path_key"], changed["path_key"].combine_chunks())
    if not pc.any(has_path).as_py():
        return rows
    rest = rows.filter(has_path).join(changed.select(KEY), KEY, join_type="left anti")
    return pa.concat_tables([rows.filter(pc.invert(has_path)), rest.select(rows.column_names).cast(rows.schema)])


def unexpired(rows: pa.Table, retention: Retention) -> pa.Table:
    """Return the rows without expired tombstones."""
    if retention.expired_until is None:
        return rows
    kept = pc.greater(rows["deleted_at"], retention.expired_until)
    return rows.filter(pc.fill_null(kept, True))


def touched_or_expiring(rows: pa.Table, changed: pa.Table, before: Retention, after: Retention) -> pa.Table:
    """Return the rows whose path is among the changed ones, and tombstones that expire between two retentions."""
    wanted = pc.is_in(rows["path_key"], changed["path_key"].combine_chunks())
    if after.expired_until is not None and not before.is_within(after):
        wanted = pc.or_(wanted, pc.fill_null(pc.less_equal(rows["deleted_at"], after.expired_until), False))
    return rows.filter(wanted)


def events_by_version(
    files: pa.Table, commits: pa.Table, retentions: Mapping[int, Retention]
) -> dict[int, list[Group]]:
    """Return the sums of what begins and of what ends at each version, negative where something ends.

    files:      those of the first of the versions, reconciled.
    commits:    the file actions of the versions after it, with commit_version and line_number.
    retentions: by version, ascending, that of the first too; none keeps more than the one before.
    """
    first, last = min(retentions), max(retentions)
    held = touched_or_expiring(files, commits, retentions[first], retentions[last])
    found: dict[int, list[Group]] = {}
    for (_, before), (version, after) in pairwise(retentions.items()):
        changed = newest(commits.filter(pc.equal(commits["commit_version"], version))).select(held.column_names)
        counted, begun = unexpired(held, before), unexpired(changed, after)
        staying = unexpired(without(counted, changed), after)
        ends = [*groups_of(counted, sign=-1), *groups_of(staying)]
        found[version] = [
            *({**group, "begins": True} for group in groups_of(begun)),
            *({**group, "begins": False} for group in ends),
        ]
        held = pa.concat_tables([staying, begun])
    return found
