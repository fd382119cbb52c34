"""The definitions of all tables of a configuration. Building them reads no log and does not start Spark."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

from deltasnap_assets.dagster_internals import DagsterLibraryRegistry
from deltasnap_assets.runs.condition.alerts import alerts_sensor
from deltasnap_assets.runs.planning.names import job_name, version_keys
from deltasnap_assets.runs.refresh_job import refresh_job
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_assets.runs.sensors import new_commits_sensors
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import load_settings
from deltasnap_assets.settings.store_place import check_store_place
from deltasnap_assets.settings.table_settings import TABLE_TAG, TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_assets.tables.assets.delta_log_asset import observe_job
from deltasnap_assets.tables.assets.fleet_asset import (
    fleet_asset,
    fleet_job,
    fleet_schedule,
    fleet_sensor,
)
from deltasnap_assets.tables.assets.table_assets import table_assets
from deltasnap_assets.tables.assets.table_job import TableJob
from deltasnap_assets.tables.checks.asset_checks import table_checks
from deltasnap_assets.tables.checks.maintenance import checkpoint_job, prune_job
from deltasnap_assets.tables.resources import resources
from deltasnap_core import DeltaSnapError, __version__
from deltasnap_core.support import DISTRIBUTION

DagsterLibraryRegistry.register(DISTRIBUTION, __version__, is_dagster_package=False)


def build_definitions(settings: Settings, *, spark: Any = None) -> dg.Definitions:
    """Return all definitions for the tables of a configuration, for merging with other definitions.

        @dg.definitions
        def defs() -> dg.Definitions:
            return dg.Definitions.merge(build_definitions(load_settings("deltasnap.yaml")), dg.Definitions(...))

    They contain no executor. The jobs of the tables use a single-process executor, so that their steps share a Spark
    session. Runs started from an asset's page use the executor of the project.
    spark: the session of the project to use, with its settings: a `SparkSession`, or a resource with a `spark_session`,
    such as those of dagster-pyspark. None: as the key `spark` of the settings says.
    Errors: as `check_store_place`.
    """
    check_store_place(settings)
    defs = dg.Definitions.merge(
        definitions_of_tables(settings), definitions_of_store(settings, lambda: defs, spark=spark)
    )
    return defs


def definitions_of_tables(settings: Settings, suffix: str = "") -> dg.Definitions:
    """Return the definitions that each table has. suffix: of the names of sensors for several tables."""
    jobs = {table.name: _job(table) for table in settings.tables}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # needed for backfill policies that run a range in one run
        return dg.Definitions(
            assets=[asset for table in settings.tables for asset in table_assets(table)],
            asset_checks=[checks for table in settings.tables for checks in table_checks(settings, table)],
            jobs=[*jobs.values()],
            sensors=new_commits_sensors(settings, jobs, observe_job, suffix),
            schedules=[
                refresh_schedule(settings, table, cron) for table in settings.tables if (cron := table.refresh_cron)
            ],
        )


def definitions_of_store(
    settings: Settings, complete: Callable[[], dg.Definitions], *, spark: Any = None
) -> dg.Definitions:
    """Return the definitions that the tables of a store share. complete: returns those and the ones of the tables."""
    refresh = refresh_job(settings, complete, RunSession(session_config(settings.spark)))
    return dg.Definitions(
        assets=[fleet_asset(settings)],
        jobs=[refresh, prune_job(settings), checkpoint_job(settings), fleet_job(settings)],
        sensors=[fleet_sensor(settings), *([alerts_sensor(settings)] if settings.alerts.urls else [])],
        schedules=[fleet_schedule(settings)],
        resources=resources(settings, spark),
    )


def configured_definitions() -> dg.Definitions:
    """Return the definitions of the configuration file in use, with the executor of the code location.

    Errors: ConfigError; DeltaSnapError if the store is inside a table, or if the session is a resource of a project.
    """
    settings = load_settings()
    if settings.spark.resource is not None:
        raise DeltaSnapError(
            f"`spark.resource` names {settings.spark.resource}, a resource of a project, which this code location does "
            "not have: use `master` or `remote`, or merge `build_definitions()` into the project."
        )
    own = dg.Definitions(executor=dg.in_process_executor)  # not shared: every run has its own Spark session
    return dg.Definitions.merge(build_definitions(settings), own)


def _job(table: TableSettings) -> Any:
    return TableJob(
        version_keys(table),
        name=job_name(table.name),
        description=f"Materializes versions of {table.name}: each of its assets, and its checks.",
        tags={TABLE_TAG: table.name},
        executor_def=dg.in_process_executor,  # one process for all steps of a run: they share a Spark session
    )
