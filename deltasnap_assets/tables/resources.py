"""The resources of the code location: the Spark session on dagster-pyspark, and what is built on it."""

from __future__ import annotations

from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from deltasnap_assets.runs.run_process import PROCESS_TAG, this_process
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.spark.session_config import session_config
from deltasnap_assets.tables.io_manager import IO_MANAGER_KEY, SnapshotIOManager
from deltasnap_assets.tables.run_snapshots import RunSnapshots


def resources(settings: Settings) -> dict[str, Any]:
    """The resources of the code location.

    Made by functions rather than from configuration: Dagster shows the configuration of a resource to everyone who may
    open its UI, and a Spark setting or a storage option may be a credential.
    """

    @dg.resource(description="The Spark session, started when it is first needed.")
    def pyspark() -> LazyPySparkResource:
        return LazyPySparkResource(spark_config=session_config(settings.spark))

    @dg.resource(required_resource_keys={"pyspark"}, description=f"Delta logs, and the store at {settings.storage}.")
    def snapshots(context: dg.InitResourceContext) -> RunSnapshots:
        if context.run is not None and context.instance is not None:
            context.instance.add_run_tags(context.run.run_id, {PROCESS_TAG: this_process()})
        return RunSnapshots(settings, context.resources.pyspark)

    @dg.io_manager(required_resource_keys={"snapshots"}, description="Stored versions as inputs.")
    def snapshot_io_manager(context: dg.InitResourceContext) -> SnapshotIOManager:
        return SnapshotIOManager(context.resources.snapshots)

    return {"pyspark": pyspark, "snapshots": snapshots, IO_MANAGER_KEY: snapshot_io_manager}
