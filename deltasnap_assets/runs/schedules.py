"""The schedule of a table: it materializes every version that is missing."""

from __future__ import annotations

import dagster as dg

from deltasnap_assets.runs.check_requests import request_for_checks, version_with_due_checks
from deltasnap_assets.runs.condition.check_events import report_freshness
from deltasnap_assets.runs.condition.examination import report_condition_without_run
from deltasnap_assets.runs.condition.log_reports import read_status_or_report
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of
from deltasnap_assets.runs.planning.log_status import stored_state
from deltasnap_assets.runs.planning.names import job_name, requested_run_tags
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.plan import nothing_to_do, plan
from deltasnap_assets.runs.shared_store import is_shared_with_runs
from deltasnap_assets.runs.stores import history_of
from deltasnap_assets.runs.table_runs import UnfinishedRuns
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import secrets_hidden, without_secrets


def refresh_schedule(settings: Settings, table: TableSettings, cron: str) -> dg.ScheduleDefinition:
    """Return the schedule `<table>_refresh` with the cron expression `cron`.

    The sensor requests each version once. The schedule reads the whole log, so it also retries versions whose run
    failed, and reports damage that a poll for new commits does not detect. If reading a long log takes longer than a
    tick may, the sensor reports its damage later. Without missing versions, it requests the newest one again if its
    checks are due.
    """

    @dg.schedule(
        name=f"{table.name}_refresh",
        job_name=job_name(table.name),
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Materializes all new and missing versions of {table.name}.",
    )
    @secrets_hidden()
    def refresh(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        if run_id := UnfinishedRuns.of(context.instance, [table.name]).active.get(table.name):
            return dg.SkipReason(f"Run {run_id} of {table.name} is in progress.")
        known = known_of(context.instance, table.name, reads_failed=True)
        status, stored = read_status_or_report(settings, table, context.instance)
        is_shared = is_shared_with_runs(context.instance, settings, table, stored.versions)
        todo = plan(table, status, known, stored if is_shared else None)
        apply_to_instance(context.instance, table.name, todo)
        sort_partitions(context.instance, table.name)
        if todo.ranges:
            return [dg.RunRequest(tags=requested_run_tags(table.name, *versions)) for versions in todo.ranges]
        found = report_condition_without_run(context.instance, settings, table, status, stored, is_brief=True)
        condition = status.condition if found is None else found
        if status.listing is not None:
            latest = stored_state(settings, table, stored, status.listing.latest_version)
            report_freshness(context.instance, table, history_of(table, status.listing, latest))
        newest = version_with_due_checks(context.instance, settings, table, status, known)
        if newest is not None and is_shared:
            return [request_for_checks(table, newest)]
        if condition is not None and condition.unloadable:
            return dg.SkipReason(without_secrets(condition.text))
        return dg.SkipReason(nothing_to_do(table, status))

    return refresh
