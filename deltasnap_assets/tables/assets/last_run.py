"""The version whose rows the last run of an asset read, kept in the metadata of the asset's materialization.

Dagster records this metadata together with the materialization, or not at all. So a failed run, a retry or a run that
is repeated does not change what the last run read. To start again, wipe the materializations of the asset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg

from deltasnap_core import DeltaSnapError, VersionManifest

_PAGE = 100


class LastRunError(DeltaSnapError):
    """The changes of `table` since the last run of the asset `consumer` cannot be determined, because of `reason`."""

    def __init__(self, *, table: str, consumer: str, reason: str) -> None:
        self.table = table
        self.consumer = consumer
        self.reason = reason
        super().__init__(f"Cannot determine the changes of {table} since the last run of {consumer}: {reason}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersion:
    """A version that a run read, with the data that distinguishes it from another version with the same number.

    generation: of the store. commit: the digest of its commit; None: unknown.
    """

    version: int
    generation: str
    commit: str | None

    @classmethod
    def of(cls, manifest: VersionManifest) -> ReadVersion:
        """Return the value for a stored version."""
        identity = None if manifest.identity is None else manifest.identity.commit
        digest = None if identity is None else identity.digest
        return cls(version=manifest.version, generation=manifest.generation, commit=digest)

    @classmethod
    def from_json(cls, values: object) -> ReadVersion | None:
        """Return the value from the result of `to_json`; None: it is something else."""
        match values:
            case {"version": int(version), "generation": str(generation), "commit": str() | None as commit}:
                return cls(version=version, generation=generation, commit=commit)
        return None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"version": self.version, "generation": self.generation, "commit": self.commit}

    def is_before(self, latest: VersionManifest, stored: VersionManifest | None) -> bool:
        """Return whether it is the latest stored version, or an earlier one of the same log.

        stored: the current version of its number; None: it was pruned. Then the generation must be that of the latest.
        """
        found = ReadVersion.of(stored or latest)
        if self.version > latest.version or self.generation != found.generation:
            return False
        return stored is None or self.commit == found.commit or None in (self.commit, found.commit)


@dataclass(frozen=True, slots=True)
class ConsumingAsset:
    """The asset that reads the changes of a table in the current step, and its partition (None: it has none)."""

    table: str
    context: dg.AssetExecutionContext
    key: dg.AssetKey
    partition: str | None

    @classmethod
    def of_step(cls, table: str) -> ConsumingAsset:
        """Return the asset of the current step. Errors: LastRunError if it is not one asset, or several partitions."""
        try:
            context = dg.AssetExecutionContext.get()
        except dg.DagsterInvariantViolationError:
            reason = "this input needs a run that materializes an asset"
            raise LastRunError(table=table, consumer="an asset", reason=reason) from None
        keys = sorted(context.selected_asset_keys)
        names = ", ".join(key.to_user_string() for key in keys)
        if len(keys) != 1 or isinstance(context.assets_def.node_def, dg.GraphDefinition):
            reason = "expected a step that materializes one asset, not a graph of ops"
            raise LastRunError(table=table, consumer=names or "an asset", reason=reason)
        partitions = [None] if context.assets_def.partitions_def is None else context.partition_keys
        if len(partitions) != 1:
            reason = f"expected a run of one partition, found {len(partitions)} partitions"
            raise LastRunError(table=table, consumer=names, reason=reason)
        return cls(table, context, keys[0], partitions[0])

    def error(self, reason: str) -> LastRunError:
        """Return the error for this asset."""
        return LastRunError(table=self.table, consumer=self.key.to_user_string(), reason=reason)

    def last_read(self) -> ReadVersion | None:
        """Return the version that the last run read; None: no run did. Errors: LastRunError for unreadable metadata."""
        for materialization in self._materializations():
            if (entry := materialization.metadata.get(self._entry)) is not None:
                found = ReadVersion.from_json(entry.value)
                if found is None:
                    raise self.error(f"deltasnap did not write its metadata entry {self._entry!r}")
                return found
        return None

    def record(self, read: ReadVersion, since: int | None) -> None:
        """Add what this run reads to the metadata of the materialization, which Dagster records if the step succeeds.

        since: the version that the last run read; None: there is none.
        """
        entry = dg.MetadataValue.json({"since": since, **read.to_json()})
        self.context.add_asset_metadata({self._entry: entry}, asset_key=self.key)

    @property
    def _entry(self) -> str:
        return f"deltasnap/row_changes/{self.table}"

    def _materializations(self) -> Iterator[dg.AssetMaterialization]:
        """Yield the materializations of the asset and its partition, newest first."""
        partitions = None if self.partition is None else [self.partition]
        filters = dg.AssetRecordsFilter(asset_key=self.key, asset_partitions=partitions)
        cursor, has_more = None, True
        while has_more:
            page = self.context.instance.fetch_materializations(filters, limit=_PAGE, cursor=cursor)
            for record in page.records:
                if (found := record.asset_materialization) is not None:
                    yield found
            cursor, has_more = page.cursor, page.has_more
