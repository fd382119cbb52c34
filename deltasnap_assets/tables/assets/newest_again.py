"""Records the newest version of a table last, because Dagster shows the last event as the state of an asset.

Dagster records the versions of a range in no fixed order, and a run of old versions may follow the run of the newest.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from deltasnap_assets.runs.planning.partitions import key_of, known_versions, version_partitions
from deltasnap_assets.runs.planning.plan import BEGAN_AFTER_TAG, delta_log_key

Entries = Mapping[str, dg.MetadataValue]


def newest_again(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, recorded: Mapping[int, Entries]
) -> dg.AssetMaterialization | None:
    """Return the materialization to record after a run that materialized `recorded`; None: the newest is already last.

    This is the newest version of the run, or a higher version if one was materialized earlier, unchanged.
    """
    table_name, newest = asset_key.path[0], max(recorded)
    partitions = instance.get_dynamic_partitions(version_partitions(table_name).name or "")
    if any(version > newest for version in known_versions(partitions)):
        began_after = _generation_began_after(instance, table_name)
        materialized = instance.get_materialized_partitions(asset_key, after_cursor=began_after)
        highest = known_versions(materialized.intersection(partitions))[-1:]
        if highest and highest[0] > newest:
            return _as_before(instance, asset_key, highest[0])
    if len(recorded) == 1:
        return None
    description = "The newest version of this run, recorded again."
    return dg.AssetMaterialization(
        asset_key, partition=key_of(newest), metadata=recorded[newest], description=description
    )


def _as_before(instance: dg.DagsterInstance, asset_key: dg.AssetKey, version: int) -> dg.AssetMaterialization | None:
    filters = dg.AssetRecordsFilter(asset_key=asset_key, asset_partitions=[key_of(version)])
    for record in instance.fetch_materializations(filters, limit=1).records:
        if (before := record.asset_materialization) is not None:
            description = "The newest version of all, recorded again after a run of earlier versions."
            return dg.AssetMaterialization(
                asset_key, partition=key_of(version), metadata=before.metadata, description=description
            )
    return None


def _generation_began_after(instance: dg.DagsterInstance, table_name: str) -> int | None:
    """Return the id of the last event before the table was dropped and created again; None: it never was."""
    for record in instance.fetch_observations(delta_log_key(table_name), limit=1).records:
        if (observation := record.event_log_entry.asset_observation) is not None:
            return int(observation.tags.get(BEGAN_AFTER_TAG, 0)) or None
    return None
