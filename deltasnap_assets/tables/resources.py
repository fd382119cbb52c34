"""The resources of the code location: the Spark session on dagster-pyspark, and the objects that use it."""

# No `from __future__ import annotations` here: Dagster reads the annotations of resources and rejects strings.
# ruff: noqa: I002

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from deltasnap_assets.runs.memory import listed_logs_of
from deltasnap_assets.runs.planning.names import REFRESH_JOB, selects_versions, version_keys
from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from deltasnap_assets.spark.java import JavaError, use_java
from deltasnap_assets.spark.session.run_session import RunSession, SharedSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_assets.tables.assets.io_manager import IO_MANAGER_KEY, SnapshotIOManager
from deltasnap_assets.tables.assets.steps import SNAPSHOTS_KEY
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import redacted

SPARK_KEY = "deltasnap_pyspark"
_MAX_RETRIES = "dagster/max_retries"
_NO_VERSION = (
    "This run has no partition: choose the version to materialize, as in `dg launch --partition 12`. The job `%s` "
    "materializes all new versions."
)


class SparkResource(dg.ConfigurableResource[LazyPySparkResource]):
    """The Spark session of a run on dagster-pyspark, started on first use."""

    # Not a field of the configuration: Dagster shows that to every user of its UI, and a property may be a credential.
    of_file: dg.ResourceDependency[SparkSettings]
    config: dict[str, str] = Field(
        default={},
        description="Spark properties of one run, over those of the configuration file: `spark.driver.memory: 8g`.",
    )

    def create_resource(self, context: dg.InitResourceContext) -> LazyPySparkResource:  # noqa: ARG002  # Dagster's
        """Return the resource that starts the session."""
        spark = self.of_file.model_copy(update={"config": {**self.of_file.config, **self.config}})
        if spark.remote is None:
            with suppress(JavaError):  # raised again when a session starts; a run may not need one
                use_java()
        return LazyPySparkResource(spark_config=session_config(spark))


def resources(settings: Settings, spark: Any = None) -> dict[str, Any]:
    """Return the resources of the code location.

    Those for the store are functions rather than configured resources: Dagster shows the configuration of a resource to
    every user of its UI, and a storage option may be a credential.
    spark: the session of the project, or a resource with a `spark_session`; None: as configured.
    """
    spark_key, snapshots_key = settings.spark.resource or settings.own_name(SPARK_KEY), settings.own_name(SNAPSHOTS_KEY)
    is_own = spark is None and settings.spark.resource is None
    store = redacted(settings.storage)

    @dg.resource(required_resource_keys={spark_key}, description=f"Delta logs, and the store at {store}.")
    def snapshots(context: dg.InitResourceContext) -> Iterator[RunSnapshots]:
        run, instance = context.run, context.instance
        if run is not None and instance is not None:
            _check_partition(run, instance, settings)
        listed_logs = {} if run is None else listed_logs_of(run.run_id)
        source, log = getattr(context.resources, spark_key), _run_log(context)
        made = RunSnapshots(
            settings,
            RunSession(source.spark_config, log) if is_own else SharedSession(source, log),
            listed_logs,
            queries_ahead=_materializes_all(run),
        )
        with closing(made):
            yield made

    @dg.io_manager(required_resource_keys={snapshots_key}, description="Stored versions as inputs.")
    def snapshot_io_manager(context: dg.InitResourceContext) -> SnapshotIOManager:
        return SnapshotIOManager(getattr(context.resources, snapshots_key))

    found = {snapshots_key: snapshots, settings.own_name(IO_MANAGER_KEY): snapshot_io_manager}
    if is_own:
        return {spark_key: SparkResource(of_file=settings.spark), **found}
    return found if spark is None else {spark_key: spark, **found}  # None: the project defines it


def _check_partition(run: dg.DagsterRun, instance: dg.DagsterInstance, settings: Settings) -> None:
    """Raise DeltaSnapError if a run materializes versions but selects none.

    Dagster starts such runs through its API. It then fails before the function of an asset is called, with an error of
    its own.
    """
    if selects_versions(run.tags) or run.execution_plan_snapshot_id is None:
        return
    steps = instance.get_execution_plan_snapshot(run.execution_plan_snapshot_id).step_keys_to_execute
    assets = {key.to_python_identifier() for table in settings.tables for key in version_keys(table)}
    if not assets.isdisjoint(steps):
        # Dagster retries a run that fails outside of its steps, but here every attempt would fail.
        instance.add_run_tags(run.run_id, {_MAX_RETRIES: "0"})
        raise DeltaSnapError(_NO_VERSION % settings.own_name(REFRESH_JOB))


def _run_log(context: dg.InitResourceContext) -> Callable[[str], None]:
    """Return a function that adds a line to the log of the run. Outside a run it does nothing."""
    return _no_log if context.run is None or context.log is None else context.log.info


def _no_log(_: str) -> None: ...


def _materializes_all(run: dg.DagsterRun | None) -> bool:
    """Return whether a run materializes all five assets of its versions, as the table's own job does."""
    if run is None or run.asset_selection is None:
        return run is not None
    names = {key.path[-1] for key in run.asset_selection}
    return names.issuperset(ASSET_NAMES)
