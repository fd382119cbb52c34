"""Builders for the tests of broken tables."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus,
    AssetCheckExecutionResolvedStatus,
)

from tests.assets.tables.assets_builders import App


def statuses(app: App) -> dict[str, str]:
    """The status that Dagster shows for each unpartitioned check: its latest record."""
    found = {}
    for key in app.defs.resolve_asset_graph().asset_check_keys:
        for record in app.instance.event_log_storage.get_asset_check_execution_history(key, limit=1):
            status = record.status.value
            if record.status is AssetCheckExecutionRecordStatus.PLANNED:
                run = app.instance.get_run_by_id(record.run_id) if record.run_id else None
                has_failed = run is not None and run.status is dg.DagsterRunStatus.FAILURE
                resolved = AssetCheckExecutionResolvedStatus
                status = (resolved.EXECUTION_FAILED if has_failed else resolved.SKIPPED).value
            found[key.name] = status
    return found
