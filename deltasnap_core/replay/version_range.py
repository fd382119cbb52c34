"""The versions of a range, computed from their StateDeltas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.replay.state_delta import StateDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeStart:
    """The version before a range. retention: the tombstones that `computed_state` counts."""

    version: int
    computed_state: SnapshotState
    retention: Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeVersion:
    """One version of a range.

    files_added, bytes_added:     files that this version added, or added again with other metadata.
    files_removed, bytes_removed: files that it removed. A file that was added again counts as both removed and added.
    retention:                    the tombstones that its computed state counts.
    """

    version: int
    computed_state: SnapshotState
    retention: Retention
    files_added: int
    bytes_added: int
    files_removed: int
    bytes_removed: int


def monotonic_retentions(start: RangeStart, retentions: Mapping[int, Retention]) -> dict[int, Retention]:
    """Return the retention of the start and of each later version, ascending; none keeps more than the previous one.

    An expired tombstone never comes back: a version whose retention would keep it gets the previous version's
    retention.
    """
    in_force = {start.version: start.retention}
    for version in sorted(retentions):
        in_force[version] = retentions[version].later_of(in_force[next(reversed(in_force))])
    return in_force


def versions_of(
    start: RangeStart, deltas: Mapping[int, StateDelta], retentions: Mapping[int, Retention]
) -> tuple[RangeVersion, ...]:
    """Return the versions after the start, ascending. retentions: the result of `monotonic_retentions`."""
    state, versions = start.computed_state, []
    for version, delta in sorted(deltas.items()):
        state = delta.applied_to(state)
        versions.append(
            RangeVersion(
                version=version,
                computed_state=state,
                retention=retentions[version],
                files_added=delta.begun["num_of_files"],
                bytes_added=delta.begun["size_in_bytes"],
                files_removed=-delta.ended["num_of_files"],
                bytes_removed=-delta.ended["size_in_bytes"],
            )
        )
    return tuple(versions)
