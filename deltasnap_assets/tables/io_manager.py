"""Stored versions as inputs of other assets, and as what `defs.load_asset_value` gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg

from deltasnap_assets.runs.partitions import versions_of
from deltasnap_assets.tables.input_forms import given_as
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core import VersionManifest

IO_MANAGER_KEY = "snapshot_io_manager"


class SnapshotIOManager(dg.IOManager):
    """Reads what the assets stored; writes nothing, since the assets themselves write the store.

    `reconstructed_state`, `all_files` and `tombstones` are given as the kind of DataFrame that the input is annotated
    with, `computed_state` and `log_segment` as values: one version as just that, several as a dict by version.
    """

    def __init__(self, snapshots: RunSnapshots) -> None:
        self._snapshots = snapshots

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Nothing passes through here: the store holds it already."""

    @secrets_hidden()
    def load_input(self, context: dg.InputContext) -> Any:
        """The stored versions of the input's partitions, as the type it is annotated with.

        Errors: `StoredVersionNotFoundError`; `InputTypeError` for another type than `input_forms` knows.
        """
        table_name, name = context.asset_key.path[-2:]
        versions, store = versions_of(context.asset_partition_keys), self._snapshots.store
        # Materializing a log segment alone stores nothing: what is not stored is what the log says.
        wanted = versions if name != "log_segment" else sorted(set(versions).intersection(store.versions(table_name)))
        manifests = store.manifests(table_name, wanted) if wanted else {}
        loaders = {v: partial(self._load, table_name, name, v, manifests.get(v)) for v in versions}
        return given_as(context.dagster_type.typing_type, context.asset_key.to_user_string(), name, loaders)

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
