"""Records asset checks outside a run: their results, and that a check was not evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from deltasnap_assets.checks.check import AnyCheck, Verdict
from deltasnap_assets.checks.commits import freshness, recent_commit_times, rows_verdict
from deltasnap_assets.checks.registry import FRESH_TABLE, ROWS_EXPECTED, checks_of
from deltasnap_assets.dagster_internals import (
    RUNLESS_JOB_NAME,
    RUNLESS_RUN_ID,
    AssetCheckEvaluationPlanned,
    AssetCheckExecutionRecordStatus,
)
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.runs.stores import daily_rows_of, history_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
    Problem,
    SnapshotState,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.errors import StorageError, StoredVersionNotFoundError
from deltasnap_core.support import LogListing, system_clock

LOG_ERRORS = (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
    StorageError,
    StoredVersionNotFoundError,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)
"""The errors of reading a broken log."""


def report_freshness(
    instance: dg.DagsterInstance, table: TableSettings, listing: LogListing, latest: SnapshotState | None
) -> dict[AnyCheck, Verdict]:
    """Record in Dagster whether the table is stale, and has as many rows as usual. Return the verdict on the rows.

    Without new commits no run starts, so no run would record it. A broken log is not an error here: its faults are
    reported elsewhere. latest: as for `history_of`.
    """
    verdicts, now_ms = dict[AnyCheck, Verdict](), system_clock()
    try:
        for check in checks_of(table.checks, [ROWS_EXPECTED]):
            verdicts[check] = rows_verdict(daily_rows_of(table, listing, latest, now_ms), table.checks)
        times = recent_commit_times(history_of(table, listing, latest))
    except LOG_ERRORS:
        times = []
    for check in checks_of(table.checks, [FRESH_TABLE]):
        verdicts[check] = freshness(times, table.checks, now_ms=now_ms)  # no times: the log has only a checkpoint
    found = {check: verdict for check, verdict in verdicts.items() if verdict.is_evaluated}
    for check, verdict in found.items():
        instance.report_runless_asset_event(check_evaluation(table, check, verdict))
    return {check: verdict for check, verdict in found.items() if check.name == ROWS_EXPECTED.name}


def report_checks(
    instance: dg.DagsterInstance,
    table: TableSettings,
    verdicts: Mapping[AnyCheck, Verdict],
    failed: Problem | None,
) -> None:
    for check, verdict in verdicts.items():
        if verdict.is_evaluated:
            instance.report_runless_asset_event(check_evaluation(table, check, verdict))
        else:
            _report_skipped(instance, dg.AssetCheckKey(asset_key(table, check.asset), check.name))
    if failed is None:
        return
    names, run_id = {check.name for check in verdicts}, failed.where.name or ""
    for event in _planned(instance, run_id):
        planned: Any = event.event_specific_data
        if planned.check_name not in names and _is_unevaluated(instance, planned, run_id):
            _report_skipped(instance, dg.AssetCheckKey(planned.asset_key, planned.check_name))


def check_evaluation(table: TableSettings, check: AnyCheck, verdict: Verdict) -> dg.AssetCheckEvaluation:
    """Return a check evaluation for Dagster to record."""
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(table, check.asset),
        check_name=check.name,
        passed=verdict.passed,
        severity=severity_of(check, verdict),
        description=check.text_of(verdict),
        metadata=dict(verdict.numbers),
    )


def severity_of(check: AnyCheck, verdict: Verdict) -> dg.AssetCheckSeverity:
    """Return the severity of a verdict for Dagster."""
    is_error = check.severity_of(verdict) == "error"
    return dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN


def _planned(instance: dg.DagsterInstance, run_id: str) -> list[dg.DagsterEvent]:
    entries = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
    return [entry.dagster_event for entry in entries if entry.dagster_event is not None]


def _is_unevaluated(instance: dg.DagsterInstance, planned: Any, run_id: str) -> bool:
    """Return whether a check was planned in a failed run but not evaluated. Dagster shows it as failed."""
    key = dg.AssetCheckKey(planned.asset_key, planned.check_name)
    latest = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    return any(
        record.run_id == run_id and record.status is AssetCheckExecutionRecordStatus.PLANNED for record in latest
    )


def _report_skipped(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> None:
    """Record that a check was planned but not evaluated, outside a run. Dagster then shows it as skipped.

    Without partitions: Dagster stores a planned check of a partition only once outside runs.
    """
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
        event_specific_data=AssetCheckEvaluationPlanned(asset_key=key.asset_key, check_name=key.name),
        job_name=RUNLESS_JOB_NAME,
    )
    instance.report_dagster_event(event, run_id=RUNLESS_RUN_ID)
