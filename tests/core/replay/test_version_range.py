"""The versions of a range: their added and removed files, and the retention of tombstones."""

from __future__ import annotations

from typing import Any

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.replay.version_range import RangeStart, monotonic_retentions, versions_of
from deltasnap_core.rules.totals.aggregates import SUMS, FileTotals, MeasureGroup

NO_ACTIONS = NonFileActions()


def files(count: int, size: int) -> FileTotals:
    """Return the totals of files of these sizes; a negative count subtracts them."""
    row: dict[str, Any] = {**dict.fromkeys(SUMS, 0), "rows": abs(count), "low_size": abs(count) * size}
    return FileTotals([MeasureGroup.of_row({**row, "size_class": 0, "deleted_bin": -1}, sign=1 if count > 0 else -1)])


def base(retention: Retention = KEEP_ALL) -> RangeStart:
    state = StateDelta(begun=files(5, 10), ended=FileTotals(), non_file=NO_ACTIONS).applied_to(None)
    return RangeStart(version=3, computed_state=state, retention=retention)


def test_versions_count_the_files_that_they_add_and_remove() -> None:
    deltas = {
        5: StateDelta(begun=FileTotals(), ended=files(-1, 10), non_file=NO_ACTIONS),
        4: StateDelta(begun=files(3, 7), ended=files(-2, 10), non_file=NO_ACTIONS),
    }
    versions = versions_of(base(), deltas, {4: KEEP_ALL, 5: Retention.after(9)})
    changed = [(v.files_added, v.bytes_added, v.files_removed, v.bytes_removed) for v in versions]
    assert changed == [(3, 21, 2, 20), (0, 0, 1, 10)]
    states = [(v.version, v.computed_state.num_of_files, v.computed_state.size_in_bytes) for v in versions]
    assert states == [(4, 6, 51), (5, 5, 41)]
    assert [v.retention for v in versions] == [KEEP_ALL, Retention.after(9)]


def test_no_version_keeps_more_tombstones_than_the_one_before() -> None:
    requested = {6: Retention.after(4), 4: Retention.after(2), 5: Retention.after(8)}
    found = monotonic_retentions(base(Retention.after(3)), requested)
    assert found == {3: Retention.after(3), 4: Retention.after(3), 5: Retention.after(8), 6: Retention.after(8)}
    assert list(found) == [3, 4, 5, 6]
