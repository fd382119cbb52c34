"""Records the newest version of a table last, because Dagster shows the last event as the state of an asset.

Dagster records the versions of a range in no fixed order, and a run of old versions may follow the run of the newest.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from deltasnap_assets.runs.planning.known_table import materialized_versions
from deltasnap_assets.runs.planning.partitions import key_of, known_versions, version_partitions

MetadataEntries = Mapping[str, dg.MetadataValue]


def newest_again(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, recorded: Mapping[int, MetadataEntries]
) -> dg.AssetMaterialization | None:
    """Return the materialization to record after a run that materialized `recorded`; None: the newest is already last.

    This is the newest version of the run, or a higher version if one was materialized earlier, unchanged.
    """
    table_name, newest = asset_key.path[0], max(recorded)
    partitions = instance.get_dynamic_partitions(version_partitions(table_name).name or "")
    if any(version > newest for version in known_versions(partitions)):
        materialized = materialized_versions(instance, asset_key).intersection(known_versions(partitions))
        if max(materialized, default=newest) > newest:
            return _as_before(instance, asset_key, max(materialized))
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
