"""Stored versions as inputs of other assets, and as what `defs.load_asset_value` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from deltasnap_assets.runs.partitions import versions_of
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core.store.manifest import VersionManifest

IO_MANAGER_KEY = "snapshot_io_manager"


class SnapshotIOManager(dg.IOManager):
    """Reads what the assets stored; writes nothing, since the assets themselves write the store.

    Loading `state`, `all_files` or `tombstones` gives a DataFrame, `computed_state` and `log_segment` give values, as
    `SnapshotStore` does: one version gives just that, several versions give a dict by version, ascending.
    """

    def __init__(self, snapshots: RunSnapshots) -> None:
        self._snapshots = snapshots

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Nothing passes through here: the store holds it already."""

    def load_input(self, context: dg.InputContext) -> Any:
        """The stored versions of the input's partitions. Errors: `StoredVersionNotFoundError`."""
        table_name, name = context.asset_key.path
        keys = [context.partition_key] if context.has_partition_key else context.asset_partition_keys
        versions, store = versions_of(keys), self._snapshots.store
        # Materializing a log segment alone stores nothing: what is not stored is what the log says.
        wanted = versions if name != "log_segment" else sorted(set(versions).intersection(store.versions(table_name)))
        manifests = store.manifests(table_name, wanted) if wanted else {}
        loaded = {version: self._load(table_name, name, version, manifests.get(version)) for version in versions}
        return next(iter(loaded.values())) if len(loaded) == 1 else loaded

    def _load(self, table_name: str, name: str, version: int, manifest: VersionManifest | None) -> Any:
        store = self._snapshots.store
        if manifest is None:
            log = self._snapshots.log(self._snapshots.table(table_name))
            return log.get_snapshot_at(version=version).log_segment
        readers: dict[str, Callable[[str, VersionManifest], Any]] = {
            "log_segment": store.log_segment,
            "reconstructed_state": store.state,
            "computed_state": store.computed_state,
            "all_files": store.all_files,
            "tombstones": store.tombstones,
        }
        return readers[name](table_name, manifest)
