"""Jobs over the assets of one table, resolved in a time that does not depend on the number of other tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import dagster as dg

from deltasnap_assets.dagster_internals import UnresolvedAssetJobDefinition


class TableJob(UnresolvedAssetJobDefinition):
    """A job as `dg.define_asset_job` returns it, over certain assets with all their checks.

    Dagster searches the assets and checks of all tables for each job. With a job per table, that takes minutes for a
    thousand tables, each time that a code location is loaded.
    """

    assets: tuple[dg.AssetKey, ...]

    def __new__(cls, assets: Sequence[dg.AssetKey], **fields: Any) -> TableJob:
        """Return a job over assets. fields: the other parameters of `dg.define_asset_job`."""
        job: TableJob = super().__new__(cls, selection=dg.AssetSelection.assets(*assets), **fields)
        job.assets = tuple(assets)
        return job

    def with_metadata(self, metadata: Mapping[str, Any]) -> TableJob:
        """Return a copy with other metadata.

        Dagster copies each job of a `dg` project with this method, and copies only its own fields.
        """
        job: Any = super().with_metadata(metadata)
        job.assets = self.assets
        return cast("TableJob", job)

    def resolve(self, asset_graph: Any, *args: Any, **kwargs: Any) -> dg.JobDefinition:
        """Return the job. In: all assets, and the parameters of the base class."""
        return super().resolve(_graph_of(asset_graph, self.assets), *args, **kwargs)


@lru_cache(maxsize=1)
def _graph_of(asset_graph: Any, assets: Sequence[dg.AssetKey]) -> Any:
    """Return assets with all their checks, and the assets that they read."""
    nodes = (asset_graph.get(key) for key in assets if asset_graph.has(key))
    own = asset_graph.assets_defs_for_keys(key for node in nodes for key in (node.key, *node.check_keys))
    read = {key for each in own for key in (*each.node_keys_by_input_name.values(), *each.dependency_keys)}
    others = asset_graph.assets_defs_for_keys(key for key in read if asset_graph.has(key))
    return type(asset_graph).from_assets({*own, *others})
