"""The asset `fleet`: all followed tables on one page, with its job, schedule and sensor."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

from typing import Any

import dagster as dg

from deltasnap_assets.quantities import counted
from deltasnap_assets.runs.fleet import asset_of, fleet_of
from deltasnap_assets.runs.planning.names import MAX_RUNTIME_SECONDS, MAX_RUNTIME_TAG
from deltasnap_assets.runs.table_runs import has_active_run
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TABLE_TAG
from deltasnap_assets.tables.pages.fleet_page import fleet_page
from deltasnap_assets.texts import secrets_hidden

FLEET = "fleet"
FLEET_JOB = "deltasnap_fleet"
FLEET_SCHEDULE = "deltasnap_fleet_hourly"
FLEET_SENSOR = "deltasnap_fleet_after_refreshes"

_LOCATION_TAG = "dagster/code_location"  # Dagster tags each run that it launches
_HOURLY = "30 * * * *"
_EVERY_SECONDS = 300
_MAX_RUNS = 50
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]


def fleet_asset(settings: Settings) -> dg.AssetsDefinition:
    """Return the asset of all tables, `fleet` unless the configuration has another key.

    Each materialization is kept in the store: see `SnapshotStore.fleet_history`.
    """

    @dg.asset(
        key=fleet_key(settings),
        group_name=FLEET,
        kinds={"table"},
        description="All followed tables on one page, the worst first. Reads only the store, not the logs.",
    )
    def fleet(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with secrets_hidden():
            if (other := _other_location(context)) is not None:
                context.log.warning(
                    f"The code location {other} also materializes this asset, with its own tables, so the page "
                    "alternates. Set another `fleet_asset` in one of the two configurations."
                )
            rows = fleet_of(settings, keep=True)
            context.log.info(counted(len(rows), "table"))
            shown = [{**row, "asset": asset_of(settings, row["table"])} for row in rows]
            return dg.MaterializeResult(metadata=fleet_page(shown))

    return fleet


def _other_location(context: dg.AssetExecutionContext) -> str | None:
    """Return the other code location whose run materialized this asset last; None: there is none, or it is unknown."""
    last = context.instance.get_latest_materialization_event(context.asset_key)
    run = None if last is None else context.instance.get_run_by_id(last.run_id)
    before = None if run is None else run.tags.get(_LOCATION_TAG)
    return before if before != context.run.tags.get(_LOCATION_TAG, before) else None


def fleet_key(settings: Settings) -> dg.AssetKey:
    """Return the key of the asset."""
    return dg.AssetKey.from_user_string(settings.fleet_asset)


def fleet_job(settings: Settings) -> Any:
    """Return the job that materializes the asset."""
    return dg.define_asset_job(
        settings.own_name(FLEET_JOB),
        selection=dg.AssetSelection.assets(fleet_key(settings)),
        description="Materializes the page of all tables from the store.",
        tags={MAX_RUNTIME_TAG: str(MAX_RUNTIME_SECONDS)},
        executor_def=dg.in_process_executor,
    )


def fleet_schedule(settings: Settings) -> dg.ScheduleDefinition:
    """Return the schedule. It is needed because tables become stale without new commits."""
    return dg.ScheduleDefinition(
        name=settings.own_name(FLEET_SCHEDULE),
        job_name=settings.own_name(FLEET_JOB),
        cron_schedule=_HOURLY,
        default_status=dg.DefaultScheduleStatus(settings.default_status.upper()),
        description="Materializes the page of all tables every hour.",
    )


def fleet_sensor(settings: Settings) -> dg.SensorDefinition:
    """Return the sensor: one run after all refreshes of the last minutes. Its cursor is the last run that it saw."""
    job_name = settings.own_name(FLEET_JOB)

    @dg.sensor(
        name=settings.own_name(FLEET_SENSOR),
        job_name=job_name,
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus(settings.default_status.upper()),
        description="Materializes the page of all tables after refreshes, at most every five minutes.",
    )
    @secrets_hidden()
    def after_refreshes(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        last = _last_ended(context.instance)
        if last is None or last == context.cursor:
            return dg.SensorResult(skip_reason="No table was refreshed since the last run.", cursor=context.cursor)
        if has_active_run(context.instance, job_name):
            return dg.SensorResult(skip_reason="A run of the fleet is in progress.", cursor=context.cursor)
        return dg.SensorResult(run_requests=[dg.RunRequest(job_name=job_name)], cursor=last)

    return after_refreshes


def _last_ended(instance: dg.DagsterInstance) -> str | None:
    """Return the id of the last finished run of a table; None: none among the latest runs."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_ENDED), limit=_MAX_RUNS, order_by="update_timestamp")
    runs = (record.dagster_run for record in records)
    return next((run.run_id for run in runs if TABLE_TAG in run.tags), None)
