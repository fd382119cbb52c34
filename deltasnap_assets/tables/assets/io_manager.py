"""The IO manager: stored versions as inputs of other assets, and as results of `defs.load_asset_value`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import dagster as dg
import pyarrow as pa

from deltasnap_assets.runs.planning.partitions import versions_of_keys
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.tables.assets.input_forms import StoredInput, given_as, not_loadable
from deltasnap_assets.tables.assets.row_change_inputs import change_selection, row_changes_of
from deltasnap_assets.tables.assets.row_inputs import StoredRows, row_selection
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import secrets_hidden
from deltasnap_core import DeltaSnapError, VersionManifest
from deltasnap_core.errors import StoredVersionNotFoundError

IO_MANAGER_KEY = "snapshot_io_manager"
_WHY_NOT_STORED = (
    "A partition is added when its run is requested: that run has not ended, or it failed. Retry later, for example "
    "with a dg.RetryPolicy. If the version was pruned, or `versions` of the table does not select it, choose another "
    "one."
)
_ONLY_DEPENDENCY = (
    "a dependency in `deps`, because the table itself has no value; inputs of `all_files` can be its rows"
)


class _NoInputs(dg.IOManager):
    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Do nothing: an observation has no output."""

    def load_input(self, context: dg.InputContext) -> NoReturn:
        asset = context.asset_key.to_user_string()
        raise not_loadable(asset, "an input", _ONLY_DEPENDENCY)


NO_INPUTS = {"deltasnap_no_inputs": dg.IOManagerDefinition.hardcoded_io_manager(_NoInputs())}
"""The IO manager of the table itself, by its key. Unlike the other one, it needs no resource."""


class SnapshotIOManager(dg.IOManager):
    """Reads stored versions. It writes nothing: the assets write the store themselves.

    `reconstructed_state`, `all_files` and `tombstones` become the kind of DataFrame in the annotation of the input;
    `computed_state` and `log_segment` become values. One version is a single value, several are a dict by version.
    With `rows` in the metadata of the input, `all_files` becomes the rows of the version: see `row_inputs`. With
    `row_changes`, it becomes row changes: see `row_change_inputs`.
    """

    def __init__(self, snapshots: RunSnapshots) -> None:
        self._snapshots = snapshots

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Do nothing: the store already has the output."""

    @secrets_hidden()
    def load_input(self, context: dg.InputContext) -> Any:
        """Return the stored versions of the input's partitions, or their rows, in the type of its annotation.

        Errors: DeltaSnapError for a partition key, a type or metadata that is invalid; `StoredVersionNotFoundError`;
        for rows the errors of `StoredRows`; for row changes `LastRunError` and the errors of `StoredRowChanges`.
        """
        try:
            return self._value(context)
        except StoredVersionNotFoundError as error:
            error.add_note(self._why_not_stored(error))
            raise

    def _value(self, context: dg.InputContext) -> Any:
        table_name, name = context.asset_key.path[-2:]
        asset = context.asset_key.to_user_string()
        metadata = context.definition_metadata or {}
        changes = change_selection(metadata, asset, name)
        rows = row_selection(metadata, asset, name) if changes is None else None
        versions, store = versions_of_keys(context.asset_partition_keys, table_name), self._snapshots.store
        if changes is not None:
            found = row_changes_of(self._snapshots, table_name, versions, *changes)
            return given_as(context.dagster_type.typing_type, asset, name, found)
        # A log segment that was materialized alone is not in the store. It is then read from the log.
        wanted = versions if name != "log_segment" else sorted(set(versions).intersection(store.versions(table_name)))
        manifests = store.table(table_name).manifests(wanted) if wanted else {}
        stored: dict[int, StoredInput] = {
            v: _Stored(self._snapshots, table_name, name, v, manifests.get(v))
            if rows is None
            else StoredRows(self._snapshots, table_name, manifests[v], *rows)
            for v in versions
        }
        return given_as(context.dagster_type.typing_type, asset, name, stored)

    def _why_not_stored(self, error: StoredVersionNotFoundError) -> str:
        """Return why a version is not stored, and what to do. A partition mapping can name any version."""
        with suppress(DeltaSnapError):  # without the log, nothing else is known
            latest = log_of(self._snapshots.table(error.table)).list().latest_version  # not that of the run: it waits
            if latest is not None and error.version is not None and error.version > latest:
                return (
                    f"Version {error.version} does not exist: the newest version in the log of {error.table} is "
                    f"{latest}. Choose another one, for example in the partition mapping of the input."
                )
        return _WHY_NOT_STORED


@dataclass(frozen=True, slots=True)
class _Stored:
    """One version of one asset, in any form. manifest: None: a log segment that is not stored. StoredInput."""

    snapshots: RunSnapshots
    table: str
    name: str
    version: int
    manifest: VersionManifest | None

    def value(self) -> Any:
        """Return a Spark DataFrame; for `computed_state` and `log_segment`, the value."""
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
        """Return the rows as an Arrow table. A small version does not use Spark."""
        assert self.manifest is not None  # only log segments have no manifest, and they have no rows
        return self.snapshots.store.read_arrow(self.table, self.manifest, _KINDS[self.name])


_KINDS: Mapping[str, Literal["state", "all_files", "tombstones"]] = {
    "reconstructed_state": "state",
    "all_files": "all_files",
    "tombstones": "tombstones",
}
