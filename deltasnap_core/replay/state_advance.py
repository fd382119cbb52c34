"""The computed state of a version from that of an earlier one: what ceased to count, and what began to."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.replay.computed_state import (
    COUNTED,
    COUNTED_KEY,
    FileTotals,
    SnapshotState,
    bins,
    counted_files,
    totals,
    unexpired,
)
from deltasnap_core.replay.non_file_actions import NonFileActions
from deltasnap_core.replay.state_reconstruction import newest_file_actions, reconcile


def advance_state(
    state: SnapshotState,
    files: DataFrame | None,
    earlier: DataFrame | None,
    newer: DataFrame | None,
    non_file: NonFileActions,
    *,
    expired_until: int,
    expires_until: int,
) -> SnapshotState:
    """Give the computed state after some commits, from that before them, in one look at the files they touch.

    state:    before the newer commits.
    files:    as `counted_files` gives them, of that version or of one before it. None: no files.
    earlier:  the commits (as ActionReader.commit_actions gives them) between the version of `files` and that of
              `state`; newer: those after it. None: they hold no file action. Their keys are sent to every task.
    non_file: after the newer commits.
    expired_until, expires_until: the time (ms) up to which tombstones have expired, before and after, never falling.
    """
    before = reconcile(files, earlier, broadcast=True, give=counted_files, key=COUNTED_KEY)
    newest = None if newer is None else counted_files(newest_file_actions(newer))
    changes = []
    if before is not None:
        keys = None if newest is None else newest.select(*COUNTED_KEY)
        in_play = files_in_play(before, keys, COUNTED_KEY, "deleted_at", expired_until, expires_until, broadcast=True)
        changes.append(in_play.where(unexpired(expired_until)).selectExpr("-1 as sign", *COUNTED))
    if newest is not None:
        changes.append(newest.where(unexpired(expires_until)).selectExpr("1 as sign", *COUNTED))
    found = FileTotals.of(state)
    if changes:
        change = changes[0] if len(changes) == 1 else changes[0].union(changes[1])
        for group in change.groupBy(*bins()).agg(*totals("sign")).collect():
            found.add(group)
    return found.state(non_file)


def files_in_play(
    files: DataFrame,
    changed: DataFrame | None,
    key: Sequence[str],
    deleted_at: str,
    expired_until: int,
    expires_until: int,
    *,
    broadcast: bool,
) -> DataFrame:
    """Give of some files those that changes touch, and the tombstones that expire meanwhile; in one scan.

    Out: the columns of the files, and perhaps another.

    changed:    the keys of what is changed, each once; None: nothing is.
    deleted_at: when (ms) a tombstone was made, null for a live file.
    expired_until, expires_until: see `advance_state`.
    """
    # 0 keeps also a tombstone without a time, which counts as one of 1970.
    before, after = max(expired_until, 0) or -1, max(expires_until, 0) or -1
    expires = f"({deleted_at}) between {before + 1} and {after}"
    if changed is None:
        return files.where(expires)
    if after <= before:
        return files.join(F.broadcast(changed) if broadcast else changed, list(key), "left_semi")
    touched = changed.selectExpr("*", "true as is_touched")
    looked_up = files.join(F.broadcast(touched) if broadcast else touched, list(key), "left")
    return looked_up.where(f"is_touched or {expires}")
