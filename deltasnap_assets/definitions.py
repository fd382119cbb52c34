"""The code location: `deltasnap_assets.definitions:defs`.

`defs` is made when it is first asked for, from the configuration file in force then. Importing this module reads
nothing; making `defs` reads that one file, lists no log and starts no Spark.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from deltasnap_assets.runs.partitions import version_partitions
from deltasnap_assets.runs.plan import job_name
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.settings.config import TABLE_TAG, Settings, TableSettings, load_settings
from deltasnap_assets.tables.assets import table_assets
from deltasnap_assets.tables.checks import table_checks
from deltasnap_assets.tables.maintenance import prune_job
from deltasnap_assets.tables.resources import resources

if TYPE_CHECKING:
    defs: dg.Definitions


class SnapshotDefinitions(dg.Definitions):
    """Definitions that load what is stored whatever instance there is, or none.

    Dagster looks a dynamic partition up on an instance before it asks for its value. The store needs no such thing.
    """

    def load_asset_value(
        self,
        asset_key: dg.AssetKey | Sequence[str] | str,
        *,
        python_type: type | None = None,
        instance: dg.DagsterInstance | None = None,
        partition_key: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> object:
        """One version of an asset: `defs.load_asset_value(["events", "all_files"], partition_key="12")`.

        Errors: `StoredVersionNotFoundError`.
        """
        options: dict[str, Any] = {"python_type": python_type, "partition_key": partition_key, "metadata": metadata}
        if instance is not None or partition_key is None:
            return super().load_asset_value(asset_key, instance=instance, **options)
        partitions = version_partitions(dg.AssetKey.from_coercible(asset_key).path[0]).name or ""
        with dg.DagsterInstance.ephemeral() as throwaway:
            throwaway.add_dynamic_partitions(partitions, [partition_key])
            return super().load_asset_value(asset_key, instance=throwaway, **options)


def build_definitions(settings: Settings) -> dg.Definitions:
    """Everything Dagster shows for the tables of a configuration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill policies, which a range in one run needs
        return SnapshotDefinitions(
            assets=[asset for table in settings.tables for asset in table_assets(table)],
            asset_checks=[table_checks(table) for table in settings.tables],
            jobs=[job for table in settings.tables for job in (_job(table), prune_job(table))],
            sensors=[new_commits_sensor(table) for table in settings.tables],
            schedules=[refresh_schedule(table, table.refresh) for table in settings.tables if table.refresh],
            resources=resources(settings),
            executor=dg.in_process_executor,  # one process for all the steps of a run: they share a Spark session
        )


def _job(table: TableSettings) -> Any:
    return dg.define_asset_job(
        job_name(table.name),
        selection=dg.AssetSelection.groups(table.name),
        description=f"Materializes versions of {table.name}: each of its assets, and its checks.",
        tags={TABLE_TAG: table.name},
    )


@cache
def _configured() -> dg.Definitions:
    return build_definitions(load_settings())


def __getattr__(name: str) -> Any:
    if name == "defs":
        return _configured()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "defs"])  # Dagster looks for definitions among the members of the module
