"""Stored versions as inputs of other assets, and as what `defs.load_asset_value` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import dagster as dg
import pyarrow as pa

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
        stored = {v: _Stored(self._snapshots, table_name, name, v, manifests.get(v)) for v in versions}
        return given_as(context.dagster_type.typing_type, context.asset_key.to_user_string(), name, stored)


@dataclass(frozen=True, slots=True)
class _Stored:
    """One version of one asset, in any form. manifest: None: it is not stored, and a log segment. StoredInput."""

    snapshots: RunSnapshots
    table: str
    name: str
    version: int
    manifest: VersionManifest | None

    def value(self) -> Any:
        """Return a Spark DataFrame, or the value that `computed_state` and `log_segment` are."""
        store = self.snapshots.store
        if self.manifest is None:
            log = self.snapshots.log(self.snapshots.table(self.table))
            return log.get_snapshot_at(version=self.version).log_segment
        readers: dict[str, Callable[[str, VersionManifest], Any]] = {
            "log_segment": store.log_segment,
            "reconstructed_state": store.state,
            "computed_state": store.computed_state,
            "all_files": store.all_files,
            "tombstones": store.tombstones,
        }
        return readers[self.name](self.table, self.manifest)

    def arrow(self) -> pa.Table:
        """Return rows in Arrow; a small version needs no Spark."""
        assert self.manifest is not None  # only log segments are not stored, and they are no rows
        return self.snapshots.store.read_arrow(self.table, self.manifest, _KINDS[self.name])


_KINDS: Mapping[str, Literal["state", "all_files", "tombstones"]] = {
    "reconstructed_state": "state",
    "all_files": "all_files",
    "tombstones": "tombstones",
}
