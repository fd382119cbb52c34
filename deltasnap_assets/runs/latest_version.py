"""LatestVersion: what depends on a table as it is now, whichever version that is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import dagster as dg
from dagster._core.definitions.partitions.mapping import UpstreamPartitionsResult  # no public name
from dagster._core.definitions.partitions.subset import PartitionsSubset  # no public name
from dagster._core.instance import DynamicPartitionsStore  # no public name

from deltasnap_assets.runs.partitions import key_of, known_versions


class LatestVersion(dg.LastPartitionMapping):
    """A partition mapping to the highest version that a table has a partition of, ignoring keys that are no versions.

        ins={"files": dg.AssetIn(["events", "all_files"], partition_mapping=LatestVersion())}

    `dg.LastPartitionMapping` takes the partition that was added last, which need not be that one. Where Dagster runs
    without this package, in its UI and its daemon, it stands there as one: versions are kept in order, see
    `partition_order`.
    """

    def get_upstream_mapped_partitions_result_for_partitions(
        self,
        downstream_partitions_subset: PartitionsSubset | None,  # noqa: ARG002  # Dagster passes it by name
        downstream_partitions_def: dg.PartitionsDefinition | None,  # noqa: ARG002
        upstream_partitions_def: dg.PartitionsDefinition,
        current_time: datetime | None = None,
        dynamic_partitions_store: DynamicPartitionsStore | None = None,
    ) -> UpstreamPartitionsResult:
        """Return the highest version, as one partition; none where there is none."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            latest = _latest(upstream_partitions_def.get_partition_keys())
            return UpstreamPartitionsResult(
                partitions_subset=upstream_partitions_def.subset_with_partition_keys(latest),
                required_but_nonexistent_subset=upstream_partitions_def.empty_subset(),
            )

    def get_downstream_partitions_for_partitions(
        self,
        upstream_partitions_subset: PartitionsSubset,
        upstream_partitions_def: dg.PartitionsDefinition,
        downstream_partitions_def: dg.PartitionsDefinition,
        current_time: datetime | None = None,
        dynamic_partitions_store: DynamicPartitionsStore | None = None,
    ) -> PartitionsSubset:
        """Return every partition downstream where the highest version is among those upstream, else none."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            latest = _latest(upstream_partitions_def.get_partition_keys())
            if any(key in upstream_partitions_subset for key in latest):
                return downstream_partitions_def.subset_with_all_partitions()
            return downstream_partitions_def.empty_subset()

    @property
    def description(self) -> str:
        """Return what Dagster's UI says of it."""
        return "Depends on the highest version of the table."


# Dagster writes the name of the class into what its other processes read: under its own they could not read it.
LatestVersion.__name__ = dg.LastPartitionMapping.__name__


def _latest(keys: Iterable[str]) -> list[str]:
    return [key_of(version) for version in known_versions(keys)[-1:]]
