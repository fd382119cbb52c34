"""Jobs over the assets of one group, resolved in a time that does not depend on the number of other groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import dagster as dg

from deltasnap_assets.dagster_internals import UnresolvedAssetJobDefinition


class GroupJob(UnresolvedAssetJobDefinition):
    """A job as `dg.define_asset_job` returns it, whose selection contains only assets of one group.

    Dagster searches the assets and checks of all groups for each job. With a job per group, that takes minutes for a
    thousand groups, each time that a code location is loaded.
    """

    group: str

    def __new__(cls, group: str, **fields: Any) -> GroupJob:
        """Return a job of a group. fields: the parameters of `dg.define_asset_job`; the selection is an object."""
        job: GroupJob = super().__new__(cls, **fields)
        job.group = group
        return job

    def with_metadata(self, metadata: Mapping[str, Any]) -> GroupJob:
        """Return a copy with other metadata.

        Dagster copies each job of a `dg` project with this method, and copies only its own fields.
        """
        job: Any = super().with_metadata(metadata)
        job.group = self.group
        return cast("GroupJob", job)

    def resolve(self, asset_graph: Any, *args: Any, **kwargs: Any) -> dg.JobDefinition:
        """Return the job. In: all assets, and the parameters of the base class."""
        return super().resolve(_graph_of_group(asset_graph, self.group), *args, **kwargs)


@lru_cache(maxsize=1)  # Dagster resolves the jobs of a table one after another
def _graph_of_group(asset_graph: Any, group: str) -> Any:
    """Return the assets and checks of a group, and the assets that they read."""
    own = asset_graph.assets_defs_for_keys(_keys_by_group(asset_graph).get(group, ()))
    read = {key for each in own for key in (*each.node_keys_by_input_name.values(), *each.dependency_keys)}
    others = asset_graph.assets_defs_for_keys(key for key in read if asset_graph.has(key))
    return type(asset_graph).from_assets({*own, *others})


@lru_cache(maxsize=1)
def _keys_by_group(asset_graph: Any) -> Mapping[str, Sequence[dg.AssetKey | dg.AssetCheckKey]]:
    keys = defaultdict[str, list[dg.AssetKey | dg.AssetCheckKey]](list)
    for node in asset_graph.asset_nodes:
        keys[node.group_name].extend([node.key, *node.check_keys])
    return keys
