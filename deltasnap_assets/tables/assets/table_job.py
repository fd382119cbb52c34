"""Jobs over the assets of one table, resolved in a time that does not depend on the number of other tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import dagster as dg

from deltasnap_assets.dagster_internals import UnresolvedAssetJobDefinition


class TableJob(UnresolvedAssetJobDefinition):
    """A job as `dg.define_asset_job` returns it, over certain assets with their checks, and further checks.

    Dagster searches the assets and checks of all tables for each job. With a job per table, that takes minutes for a
    thousand tables, each time that a code location is loaded.
    """

    assets: tuple[dg.AssetKey, ...]
    checks: tuple[dg.AssetCheckKey, ...]

    def __new__(cls, assets: Sequence[dg.AssetKey], checks: Sequence[dg.AssetCheckKey] = (), **fields: Any) -> TableJob:
        """Return a job over assets with all their checks, and over checks of other assets.

        fields: the other parameters of `dg.define_asset_job`.
        """
        selection: dg.AssetSelection = dg.AssetSelection.assets(*assets)
        if checks:
            selection |= dg.AssetSelection.checks(*checks)
        job: TableJob = super().__new__(cls, selection=selection, **fields)
        job.assets, job.checks = tuple(assets), tuple(checks)
        return job

    def with_metadata(self, metadata: Mapping[str, Any]) -> TableJob:
        """Return a copy with other metadata.

        Dagster copies each job of a `dg` project with this method, and copies only its own fields.
        """
        job: Any = super().with_metadata(metadata)
        job.assets, job.checks = self.assets, self.checks
        return cast("TableJob", job)

    def resolve(self, asset_graph: Any, *args: Any, **kwargs: Any) -> dg.JobDefinition:
        """Return the job. In: all assets, and the parameters of the base class."""
        return super().resolve(_graph_of(asset_graph, self.assets, self.checks), *args, **kwargs)


@lru_cache(maxsize=1)
def _graph_of(asset_graph: Any, assets: Sequence[dg.AssetKey], checks: Sequence[dg.AssetCheckKey]) -> Any:
    """Return assets with all their checks, other checks, and the assets that they all read."""
    nodes = (asset_graph.get(key) for key in assets if asset_graph.has(key))
    own = asset_graph.assets_defs_for_keys([*(key for node in nodes for key in (node.key, *node.check_keys)), *checks])
    read = {key for each in own for key in (*each.node_keys_by_input_name.values(), *each.dependency_keys)}
    others = asset_graph.assets_defs_for_keys(key for key in read if asset_graph.has(key))
    return type(asset_graph).from_assets({*own, *others})
