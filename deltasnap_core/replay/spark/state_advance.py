"""The computed state of a version from that of an earlier one: what ceased to count, and what began to."""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import aggregated, state_with, totals_of
from deltasnap_core.replay.spark.file_action_layout import DIGEST, FileActionLayout
from deltasnap_core.replay.spark.state_reconstruction import newest_file_actions, reconcile
from deltasnap_core.rules.aggregates import DIGESTED


def advance_state(
    state: SnapshotState,
    files: DataFrame | None,
    earlier: DataFrame | None,
    newer: DataFrame | None,
    non_file: NonFileActions,
    *,
    before: Retention,
    after: Retention,
) -> SnapshotState:
    """Return the computed state after some commits, from that before them, in one look at the files they touch.

    state:    before the newer commits.
    files:    those of that version or of one before it (DIGEST). None: no files.
    earlier:  those of the commits between the version of `files` and that of `state`, with commit_version and
              line_number; newer: of those after it. None: they hold no file action. Their keys are sent to every task.
    non_file: after the newer commits.
    before, after: which tombstones `state` counted, and which are kept after the newer commits: no others.
    Errors:   MissingSizeError.
    """
    known = reconcile(files, earlier, DIGEST, broadcast=True)
    newest = None if newer is None else newest_file_actions(newer, DIGEST)
    changes = []
    if known is not None:
        gone = touched_or_expiring(known, newest, DIGEST, before, after, broadcast=True)
        changes.append(DIGEST.unexpired(gone, before).selectExpr("-1 as sign", *DIGESTED))
    if newest is not None:
        changes.append(DIGEST.unexpired(newest, after).selectExpr("1 as sign", *DIGESTED))
    found = totals_of(state)
    if changes:
        change = changes[0] if len(changes) == 1 else changes[0].union(changes[1])
        for group in aggregated(change, sign="sign"):
            found.add(group)
    return state_with(found, non_file)


def touched_or_expiring(
    files: DataFrame,
    changed: DataFrame | None,
    layout: FileActionLayout,
    before: Retention,
    after: Retention,
    *,
    broadcast: bool,
) -> DataFrame:
    """Return the rows whose key occurs in `changed`, plus tombstones that expire between two retentions; in one scan.

    Out: the columns of the files, and perhaps others.

    files:   in the layout. changed: has its key of what is changed, each once; None: nothing is.
    before, after: see `advance_state`. broadcast: send the keys to every task.
    """
    expires = before.expires_by(after, f"({layout.deleted_at})")
    if changed is None:
        return files.where(expires)
    if before.is_within(after):
        return layout.join(files, changed, how="left_semi", broadcast=broadcast)
    looked_up = layout.join(files, changed, "true as is_touched", how="left", broadcast=broadcast)
    return looked_up.where(f"is_touched or {expires}")
