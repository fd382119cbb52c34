"""The names of a table's job, assets and runs in Dagster, and the tags of runs and observations."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from deltasnap_assets.runs.planning.partitions import key_of
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TABLE_ASSET, TABLE_TAG, TableSettings

STORING_ASSET = "reconstructed_state"
"""The asset whose step writes the versions of a run to the store."""
GENERATION = "generation"
"""The metadata entry of its materializations that names the stored generation."""
DATA_VERSION = "data_version"
"""The metadata entry of the table's observations with the last version that changes data."""
LAST_UPDATED = "dagster/last_updated_timestamp"
"""The metadata entry with the time of the last commit, which Dagster's freshness checks read."""
REFRESH_JOB = "refresh_all_tables"
"""The job that refreshes all tables. Texts name it, not `deltasnap refresh`, which cannot read a `defs.yaml`."""
PRUNE_JOB, CHECKPOINT_JOB = "deltasnap_prune", "deltasnap_checkpoint"
"""The jobs of maintenance. They have a partition per table and materialize nothing."""
PARTITION_TAG = "dagster/partition"
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
VERSIONS_TAG = "deltasnap/versions"  # visible to users: Dagster's list of runs hides the two tags above
CONDITION_TAG = "deltasnap/condition"  # on an observation: the fault of the table


MAX_RUNTIME_TAG = "dagster/max_runtime"
MAX_RUNTIME_SECONDS = 6 * 3600
"""Dagster's run monitoring, where it is enabled, ends a run that is in progress for longer: its process may be gone."""
_RETRIES = {"dagster/max_retries": "2", "dagster/retry_on_asset_or_op_failure": "false"}
"""Dagster's run retries, where they are enabled, repeat a run whose process died. A failed step retries itself."""


def job_name(table_name: str) -> str:
    """Return the name of the job that materializes the five assets of a table."""
    return f"{table_name}_snapshots"


def asset_key(table: TableSettings, asset: str) -> dg.AssetKey:
    """Return the key of an asset of a table: TABLE_ASSET, or one of ASSET_NAMES."""
    return dg.AssetKey.from_user_string(table.key_of(asset))


def table_key(table: TableSettings) -> dg.AssetKey:
    """Return the key of the asset that is the table itself."""
    return asset_key(table, TABLE_ASSET)


def version_keys(table: TableSettings) -> list[dg.AssetKey]:
    """Return the keys of the five assets with a partition per version."""
    return [asset_key(table, name) for name in ASSET_NAMES]


def selects_versions(tags: Mapping[str, str]) -> bool:
    """Return whether a run with these tags has a partition or a range of them."""
    return PARTITION_TAG in tags or RANGE_START_TAG in tags


def requested_run_tags(table_name: str, first: int, last: int) -> dict[str, str]:
    """Return the tags of a run that the daemon starts and repeats if its process dies."""
    return run_tags(table_name, first, last) | _RETRIES


def run_tags(table_name: str, first: int, last: int) -> dict[str, str]:
    """Return the tags of a run that materializes the versions first to last."""
    versions = key_of(first) if first == last else f"{first} to {last}"
    return {
        RANGE_START_TAG: key_of(first),
        RANGE_END_TAG: key_of(last),
        TABLE_TAG: table_name,
        VERSIONS_TAG: versions,
        MAX_RUNTIME_TAG: str(MAX_RUNTIME_SECONDS),
    }
