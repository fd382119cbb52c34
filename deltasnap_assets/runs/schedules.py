"""The schedule of a table: it materializes every version that is missing."""

from __future__ import annotations

import dagster as dg

from deltasnap_assets.runs.observe import Asked
from deltasnap_assets.runs.planning.names import job_name
from deltasnap_assets.runs.polls import polled
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.texts import secrets_hidden


def refresh_schedule(settings: Settings, table: TableSettings, cron: str) -> dg.ScheduleDefinition:
    """Return the schedule `<table>_refresh` with the cron expression `cron`.

    The sensor requests each version once. The schedule reads the whole log, so it also retries versions whose run
    failed, and reports damage that a poll for new commits does not detect. If reading a long log takes longer than a
    tick may, the reading continues, and the next tick need not read it. Without missing versions, it requests the
    newest one again if its checks are due.
    """

    @dg.schedule(
        name=f"{table.name}_refresh",
        job_name=job_name(table.name),
        cron_schedule=cron,
        default_status=dg.DefaultScheduleStatus(settings.default_status.upper()),
        description=f"Materializes all new and missing versions of {table.name}.",
    )
    @secrets_hidden()
    def refresh(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest] | dg.SkipReason:
        found, problems = polled(settings, [table], context.instance, Asked.SCHEDULE, {})
        for problem in problems.values():
            raise problem
        answer = found[table.name]
        if answer is None or not answer.requests:
            return dg.SkipReason("" if answer is None else answer.message)
        return answer.run_requests

    return refresh
