"""The computed state of a version from that of an earlier one: what ceased to count, and what began to."""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.action_form import ActionForm
from deltasnap_core.replay.computed_state import COUNTED, COUNTED_FILES, FileTotals, bins, totals, unexpired
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
    files:    COUNTED_FILES of that version or of one before it. None: no files.
    earlier:  those of the commits between the version of `files` and that of `state`, with commit_version and
              line_number; newer: of those after it. None: they hold no file action. Their keys are sent to every task.
    non_file: after the newer commits.
    expired_until, expires_until: the time (ms) up to which tombstones have expired, before and after, never falling.
    """
    before = reconcile(files, earlier, COUNTED_FILES, broadcast=True)
    newest = None if newer is None else newest_file_actions(newer, COUNTED_FILES)
    changes = []
    if before is not None:
        in_play = files_in_play(before, newest, COUNTED_FILES, expired_until, expires_until, broadcast=True)
        changes.append(unexpired(in_play, expired_until).selectExpr("-1 as sign", *COUNTED))
    if newest is not None:
        changes.append(unexpired(newest, expires_until).selectExpr("1 as sign", *COUNTED))
    found = FileTotals.of(state)
    if changes:
        change = changes[0] if len(changes) == 1 else changes[0].union(changes[1])
        for group in change.groupBy(*bins()).agg(*totals("sign")).collect():
            found.add(group)
    return found.state(non_file)


def files_in_play(
    files: DataFrame,
    changed: DataFrame | None,
    form: ActionForm,
    expired_until: int,
    expires_until: int,
    *,
    broadcast: bool,
) -> DataFrame:
    """Give of some files those that changes touch, and the tombstones that expire meanwhile; in one scan.

    Out: the columns of the files, and perhaps others.

    files:   as the form has them. changed: has its key of what is changed, each once; None: nothing is.
    expired_until, expires_until: see `advance_state`. broadcast: send the keys to every task.
    """
    # 0 keeps also a tombstone without a time, which counts as one of 1970.
    before, after = max(expired_until, 0) or -1, max(expires_until, 0) or -1
    expires = f"({form.deleted_at}) between {before + 1} and {after}"
    if changed is None:
        return files.where(expires)
    if after <= before:
        return form.join(files, changed, how="left_semi", broadcast=broadcast)
    looked_up = form.join(files, changed, "true as is_touched", how="left", broadcast=broadcast)
    return looked_up.where(f"is_touched or {expires}")
