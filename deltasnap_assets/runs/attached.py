"""Detects that the asset to which a table is attached does not exist. Building definitions cannot know that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import dagster as dg

from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.settings.table_settings import TableSettings

_STUB = "dagster/auto_created_stub_asset"
"""The metadata entry of an asset that Dagster adds because another one depends on it, or has checks for it."""


def missing_assets(
    instance: dg.DagsterInstance, tables: Iterable[TableSettings], repository: dg.RepositoryDefinition | None = None
) -> Iterator[str]:
    """Yield a sentence for each attached table whose asset is neither defined nor known to Dagster.

    An asset of another code location is known when it is materialized. repository: None: only that is known.
    """
    for table in tables:
        key = table_key(table)
        if not table.attach or _is_defined(key, repository) or instance.fetch_materializations(key, limit=1).records:
            continue
        where = "was never materialized" if repository is None else "is not defined"
        yield (
            f"The asset {key.to_user_string()}, to which {table.name} is attached, {where}: define it in your project, "
            "or correct `asset_key`."
        )


def _is_defined(key: dg.AssetKey, repository: dg.RepositoryDefinition | None) -> bool:
    graph = None if repository is None else repository.asset_graph
    return graph is not None and graph.has(key) and not graph.get(key).metadata.get(_STUB)
