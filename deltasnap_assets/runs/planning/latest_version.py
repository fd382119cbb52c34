"""LatestVersion: the partition mapping for assets that depend on the current version of a table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import dagster as dg

from deltasnap_assets.dagster_internals import UpstreamPartitionsResult
from deltasnap_assets.runs.planning.partitions import key_of, known_versions


class LatestVersion(dg.LastPartitionMapping):
    """A partition mapping to the highest version among a table's partitions. It ignores keys that are not versions.

        ins={"files": dg.AssetIn(["events", "all_files"], partition_mapping=LatestVersion())}

    `dg.LastPartitionMapping` uses the partition that was added last, which may be a different one. Dagster processes
    without this package, such as the UI and the daemon, load this mapping as `dg.LastPartitionMapping`. The result is
    the same, because partitions are kept in numeric order: see `partition_order`.
    """

    def get_upstream_mapped_partitions_result_for_partitions(
        self,
        downstream_partitions_subset: Any,  # noqa: ARG002  # Dagster passes it by name
        downstream_partitions_def: dg.PartitionsDefinition | None,  # noqa: ARG002
        upstream_partitions_def: dg.PartitionsDefinition,
        current_time: datetime | None = None,
        dynamic_partitions_store: Any = None,
    ) -> UpstreamPartitionsResult:
        """Return the highest version as one partition; empty if there are no versions."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            latest = _latest(upstream_partitions_def.get_partition_keys())
            return UpstreamPartitionsResult(
                partitions_subset=upstream_partitions_def.subset_with_partition_keys(latest),
                required_but_nonexistent_subset=upstream_partitions_def.empty_subset(),
            )

    def get_downstream_partitions_for_partitions(
        self,
        upstream_partitions_subset: Any,
        upstream_partitions_def: dg.PartitionsDefinition,
        downstream_partitions_def: dg.PartitionsDefinition,
        current_time: datetime | None = None,
        dynamic_partitions_store: Any = None,
    ) -> Any:
        """Return every downstream partition if the upstream subset has the highest version, else an empty subset."""
        with dg.partition_loading_context(current_time, dynamic_partitions_store):
            latest = _latest(upstream_partitions_def.get_partition_keys())
            if any(key in upstream_partitions_subset for key in latest):
                return downstream_partitions_def.subset_with_all_partitions()
            return downstream_partitions_def.empty_subset()

    @property
    def description(self) -> str:
        """Return the description in Dagster's UI."""
        return "Depends on the highest version of the table."


# Dagster serializes the class name for its other processes, which know only this one.
LatestVersion.__name__ = dg.LastPartitionMapping.__name__


def _latest(keys: Iterable[str]) -> list[str]:
    return [key_of(version) for version in known_versions(keys)[-1:]]
