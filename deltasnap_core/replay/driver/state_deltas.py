"""What commits change of the computed state (StateDelta), in Arrow. Counterpart: `replay/spark/state_deltas.py`.

Rows are measured file actions with the keys of their logical files: MEASURED_ACTION with `path_key` for the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.replay.driver.reconciliation import newest, without
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.aggregates import FileTotals, Group, groups_of
from deltasnap_core.rules.expiry import expiring, unexpired


def counted(groups: Iterable[Group], non_file: NonFileActions) -> StateDelta:
    """Return the change from no files to those in some groups. Errors: MissingSizeError."""
    return StateDelta(begun=FileTotals(groups), ended=FileTotals(), non_file=non_file)


def delta_between(
    files: pa.Table,
    earlier: pa.Table,
    newer: pa.Table,
    non_file: NonFileActions,
    *,
    before: Retention,
    after: Retention,
) -> StateDelta:
    """Return what some commits change.

    files:   of the version before the newer commits, or of an earlier one, reconciled.
    earlier: the commits between the version of `files` and the version before the newer commits; newer: those to apply.
    before, after: the retention before the newer commits, and after them: it keeps no more.
    Errors:  MissingSizeError.
    """
    since = pa.concat_tables([earlier, newer])
    held = touched_or_expiring(files, since, before, after)

    def totals(commits: pa.Table, kept: Retention, sign: int) -> FileTotals:
        changed = newest(commits).select(held.column_names)
        known = pa.concat_tables([without(held, changed), changed])
        return FileTotals(groups_of(unexpired(known, kept), sign=sign))

    return StateDelta(begun=totals(since, after, 1), ended=totals(earlier, before, -1), non_file=non_file)


def deltas_of_range(
    files: pa.Table,
    commits: pa.Table,
    non_file: Mapping[int, NonFileActions],
    retentions: Mapping[int, Retention],
) -> dict[int, StateDelta]:
    """Return what each version of a range changes of the one before.

    files:      of the version before the first, reconciled.
    commits:    the file actions of the range, with commit_version and line_number.
    non_file:   by version, the non-file actions in force.
    retentions: by version, ascending, from the version before the first on; none keeps more than the one before.
    Errors: MissingSizeError.
    """
    first, last = min(retentions), max(retentions)
    held = touched_or_expiring(files, commits, retentions[first], retentions[last])
    found = {}
    for (_, before), (version, after) in pairwise(retentions.items()):
        changed = newest(commits.filter(pc.equal(commits["commit_version"], version))).select(held.column_names)
        known, begun = unexpired(held, before), unexpired(changed, after)
        staying = unexpired(without(known, changed), after)
        ended = [*groups_of(known, sign=-1), *groups_of(staying)]
        found[version] = StateDelta(
            begun=FileTotals(groups_of(begun)), ended=FileTotals(ended), non_file=non_file[version]
        )
        held = pa.concat_tables([staying, begun])
    return found


def touched_or_expiring(rows: pa.Table, changed: pa.Table, before: Retention, after: Retention) -> pa.Table:
    """Return the rows whose path is among the changed ones, and tombstones that expire between two retentions."""
    wanted = pc.is_in(rows["path_key"], changed["path_key"].combine_chunks())
    expires = expiring(rows["deleted_at"], before, after)
    return rows.filter(wanted if expires is None else pc.or_(wanted, expires))
