"""StateDelta in Arrow: the changes that commits make to the computed state.

Counterpart: `replay/spark/state_deltas.py`.
Rows are measured file actions with the keys of their logical files: MEASURED_ACTION with `path_key` in place of `path`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.reconciliation import KEY, newest_file_actions, without_keys_of
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.expiry import expiring, unexpired
from deltasnap_core.rules.totals.aggregates import FileTotals, MeasureGroup, groups_by_version, groups_of


def counted(groups: Iterable[MeasureGroup], non_file: NonFileActions) -> StateDelta:
    """Return the change from an empty table to the files of some groups. Errors: MissingSizeError."""
    return StateDelta(begun=FileTotals(groups), ended=FileTotals(), non_file=non_file)


def totals_between(
    files: pa.Table, earlier: pa.Table, newer: pa.Table, before: Retention, after: Retention
) -> tuple[FileTotals, FileTotals]:
    """Return the totals that begin, and those that end, with some commits: as in StateDelta.

    files:   the reconciled files of the version before the newer commits, or of an earlier version.
    earlier: the commits from the version of `files` to the version before the newer commits.
    newer:   the commits to apply.
    before, after: the retention before and after the newer commits; `after` never keeps more.
    Errors:  MissingSizeError.
    """
    since = pa.concat_tables([earlier, newer])
    held = touched_or_expiring(files, since, before, after)

    begun, ended = _known(held, since, after), _known(held, earlier, before)
    return FileTotals(groups_of(begun)), FileTotals(groups_of(ended, sign=-1))


def _known(files: pa.Table, commits: pa.Table, kept: Retention) -> pa.Table:
    """Return the files after commits, without the tombstones that have expired."""
    changed = newest_file_actions(commits).select(files.column_names)
    return unexpired(pa.concat_tables([without_keys_of(files, changed), changed]), kept)


def deltas_of_range(
    files: pa.Table,
    commits: pa.Table,
    non_file: Mapping[int, NonFileActions],
    retentions: Mapping[int, Retention],
) -> dict[int, StateDelta]:
    """Return the changes that each version of a range makes to the previous one.

    files:      the reconciled files of the version before the range.
    commits:    the file actions of the range, with commit_version and line_number.
    non_file:   by version, the non-file actions in force.
    retentions: by version, ascending, starting with the version before the range; none keeps more than the previous
                one.
    Errors: MissingSizeError.
    """
    first, last = min(retentions), max(retentions)
    known = unexpired(touched_or_expiring(files, commits, retentions[first], retentions[last]), retentions[first])
    changed = newest_file_actions(commits, within=("commit_version",))
    rows = pa.concat_tables([known, changed.select(known.column_names)])
    # A row is in force from its version until another row replaces it or it expires. Some expire before they begin.
    begins = np.concatenate([np.full(known.num_rows, first), changed["commit_version"].to_numpy()]).astype(np.int64)
    ends = np.minimum(_replaced_at(rows, begins, last + 1), _expired_at(rows, retentions, last + 1))
    is_begun, is_ended = (begins > first) & (ends > begins), (ends > begins) & (ends <= last)
    begun = groups_by_version(rows.filter(is_begun), begins[is_begun])
    ended = groups_by_version(rows.filter(is_ended), ends[is_ended], sign=-1)
    return {
        version: StateDelta(
            begun=FileTotals(begun.get(version, ())),
            ended=FileTotals(ended.get(version, ())),
            non_file=actions,
        )
        for version, actions in non_file.items()
    }


def _replaced_at(rows: pa.Table, begins: NDArray[np.int64], never: int) -> NDArray[np.int64]:
    """Return, for each row, the next version with a row of the same logical file; `never` if there is none.

    A checkpoint may have a file twice: rows of the same file and version have the same next version.
    """
    codes = [rows[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in KEY]
    order = np.lexsort((begins, *codes))
    is_same = np.logical_and.reduce([code[order][1:] == code[order][:-1] for code in codes])
    at = begins[order]
    following = np.full(rows.num_rows, never)
    following[:-1][is_same] = at[1:][is_same]
    is_last = np.append(~is_same | (at[1:] != at[:-1]), True)[: rows.num_rows]  # of its file and version
    found = np.empty_like(following)
    found[order] = following[is_last][np.cumsum(is_last) - is_last]
    return found


def _expired_at(rows: pa.Table, retentions: Mapping[int, Retention], never: int) -> NDArray[np.int64]:
    """Return, for each row, the first version whose retention does not keep it; `never` if all keep it."""
    # The versions that keep every tombstone come first.
    until = {version: kept.expired_until for version, kept in retentions.items() if kept.expired_until is not None}
    places = np.searchsorted([*until.values()], pc.fill_null(rows["deleted_at"], 0).to_numpy())
    versions = np.array([*until, never], np.int64)[places]
    return np.where(rows["deleted_at"].is_null().to_numpy(), never, versions)


def touched_or_expiring(rows: pa.Table, changed: pa.Table, before: Retention, after: Retention) -> pa.Table:
    """Return the rows whose path is in `changed`, and tombstones that expire between two retentions."""
    wanted = pc.is_in(rows["path_key"], changed["path_key"].combine_chunks())
    expires = expiring(rows["deleted_at"], before, after)
    return rows.filter(wanted if expires is None else pc.or_(wanted, expires))
