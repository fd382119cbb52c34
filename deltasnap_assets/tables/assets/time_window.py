"""The versions of a table that were committed in a time window, for assets with partitions by time."""

from __future__ import annotations

from typing import Any

from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import DeltaSnapError


def versions_of_time_window(context: Any, table: str) -> tuple[int, ...]:
    """Return the stored versions of a table that were committed in the time window of a run's partitions, ascending.

        @dg.asset(
            partitions_def=dg.DailyPartitionsDefinition("2026-01-01"),
            deps=[["events", "delta_log"]],
            required_resource_keys={"snapshots"},
        )
        def daily_events(context: dg.AssetExecutionContext) -> None:
            for version in versions_of_time_window(context, "events"):
                rows = context.resources.snapshots.store.scan("events", version)

    The times are those of the table's history: in-commit timestamps, or modification times that never decrease. The
    window contains its start, not its end. A version is found as soon as it is stored.
    context: of a step whose asset is partitioned by time and requires the resource.
    Errors: DeltaSnapError without the resource, or if it has no such table; StorageError.
    """
    resources = [each for each in context.resources if isinstance(each, RunSnapshots)]
    snapshots = next((each for each in resources if each.has_table(table)), None)
    if snapshots is None:
        needed = f"no table {table}" if resources else 'no such resource: add required_resource_keys={"snapshots"}'
        raise DeltaSnapError(f"The versions of {table} are in the resource `snapshots`, and the step has {needed}.")
    window = context.partition_time_window
    first, end = (int(time.timestamp() * 1000) for time in (window.start, window.end))
    times = snapshots.store.commit_timestamps(table)
    return tuple(version for version, time in times.items() if first <= time < end)
