"""The code location: `deltasnap_assets.definitions:defs`.

`defs` is made when it is first asked for, from the configuration file in force then. Importing this module reads
nothing; making `defs` reads that one file, lists no log and starts no Spark.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from deltasnap_assets.assets import table_assets
from deltasnap_assets.checks import table_checks
from deltasnap_assets.config import TABLE_TAG, Settings, TableSettings, load_settings
from deltasnap_assets.plan import job_name
from deltasnap_assets.resources import resources
from deltasnap_assets.schedules import refresh_schedule
from deltasnap_assets.sensors import new_commits_sensor

if TYPE_CHECKING:
    defs: dg.Definitions


def build_definitions(settings: Settings) -> dg.Definitions:
    """Everything Dagster shows for the tables of a configuration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # backfill policies, which a range in one run needs
        return dg.Definitions.merge(
            *(_table_definitions(table) for table in settings.tables),
            # One process for all the steps of a run: they share a Spark session.
            dg.Definitions(resources=resources(settings), executor=dg.in_process_executor),
        )


def _table_definitions(table: TableSettings) -> dg.Definitions:
    job = dg.define_asset_job(
        job_name(table.name),
        selection=dg.AssetSelection.groups(table.name),
        description=f"Materializes versions of {table.name}: each of its assets, and its checks.",
        tags={TABLE_TAG: table.name},
    )
    schedule = refresh_schedule(table)
    return dg.Definitions(
        assets=table_assets(table),
        asset_checks=[table_checks(table)],
        jobs=[job],
        sensors=[new_commits_sensor(table)],
        schedules=[] if schedule is None else [schedule],
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
