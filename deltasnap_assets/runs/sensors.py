"""The sensor of a table: polls for new commits and asks for one run for all of them."""

from __future__ import annotations

import dagster as dg

from deltasnap_assets.runs.partition_order import sort_partitions
from deltasnap_assets.runs.partitions import key_of, version_partitions
from deltasnap_assets.runs.plan import (
    job_name,
    known_of,
    log_of,
    plan,
    run_tags,
    unfinished_run,
    unseen,
    what_is_stored,
)
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core import LogCursor


def new_commits_sensor(settings: Settings, table: TableSettings) -> dg.SensorDefinition:
    """Return the sensor `<table>_new_commits`: a tick adds the partitions of new versions and requests their range.

    The cursor is the last commit dealt with. While a run of the table is under way the tick is skipped: what arrives
    meanwhile is one range afterwards, and a table has one run at a time on any instance. A table that is missing or
    damaged makes the tick fail.
    """

    @dg.sensor(
        name=f"{table.name}_new_commits",
        job_name=job_name(table.name),
        minimum_interval_seconds=table.poll_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Materializes the versions of {table.name} as its commits arrive.",
    )
    @secrets_hidden()
    def new_commits(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if run_id := unfinished_run(context.instance, table.name):
            return dg.SkipReason(
                f"Run {run_id} of {table.name} is not finished; its successor takes what is new by then."
            )
        sort_partitions(context.instance, table.name)
        log, stored = log_of(table), None
        status = log.new_commits(LogCursor.from_text(context.cursor)) if context.cursor else log.status()
        if status is None:
            return dg.SkipReason(f"No new commit of {table.name}.")
        if status.listing is not None:  # more than new commits
            stored = what_is_stored(settings, table, status.listing)
        todo = plan(table, status, known_of(context.instance, table.name), stored)
        partitions = version_partitions(table.name)
        requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
        if todo.drop:
            requests.append(partitions.build_delete_request([key_of(version) for version in todo.drop]))
        if todo.add:
            requests.append(partitions.build_add_request([key_of(version) for version in todo.add]))
        # No run key: a range that was asked for once and failed may be asked for again after the cursor was reset.
        return dg.SensorResult(
            run_requests=[dg.RunRequest(tags=run_tags(table.name, *versions)) for versions in todo.ranges],
            dynamic_partitions_requests=requests,
            asset_events=unseen(context.instance, table.name, todo),
            cursor=log.cursor(status, todo.last).to_text(),
        )

    return new_commits
