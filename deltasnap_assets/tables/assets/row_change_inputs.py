"""The row changes of a table as an input, selected by metadata of the input.

    dg.AssetIn(["events", "all_files"], metadata={"row_changes": "since_last_run", "key": ["id"]})

`row_changes` is `since_last_run`, the changes since the version that the last run of the asset read, or `of_version`,
the changes of each version. `key`, `net`, `where` and `columns` are optional, as in `SnapshotStore.row_changes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_assets.runs.planning.partitions import version_partitions
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.located import located
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.assets.last_run import ConsumingAsset, ReadVersion
from deltasnap_assets.tables.assets.row_inputs import ROWS_OF, check_keys, invalid_metadata, names_of, predicate_of
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import ScanOptions
from deltasnap_core.support import RowChangeOptions, collected_rows

SINCE_LAST_RUN, OF_VERSION = "since_last_run", "of_version"
_ROW_CHANGES, _KEY, _NET, _WHERE, _COLUMNS = "row_changes", "key", "net", "where", "columns"


def change_selection(metadata: Mapping[str, Any], asset: str, name: str) -> tuple[str, RowChangeOptions] | None:
    """Return the row changes that an input selects, SINCE_LAST_RUN or OF_VERSION, with options; None: it selects none.

    asset: its key in messages. name: which of the five assets it is.
    Errors: DeltaSnapError for invalid metadata.
    """
    of, key, net = (metadata.get(name) for name in (_ROW_CHANGES, _KEY, _NET))
    if of is None:
        for option in (_KEY, _NET):
            if option in metadata:
                expected = f"{SINCE_LAST_RUN!r} or {OF_VERSION!r}, because {option!r} is set"
                raise invalid_metadata(asset, _ROW_CHANGES, expected, of)
        return None
    if of not in (SINCE_LAST_RUN, OF_VERSION):
        raise invalid_metadata(asset, _ROW_CHANGES, f"{SINCE_LAST_RUN!r} or {OF_VERSION!r}", of)
    if "rows" in metadata:
        raise invalid_metadata(asset, "rows", f"nothing, because {_ROW_CHANGES!r} is set", metadata["rows"])
    if name != ROWS_OF:
        raise invalid_metadata(asset, _ROW_CHANGES, f"an input of {ROWS_OF}", name)
    if not isinstance(net, bool | None):
        raise invalid_metadata(asset, _NET, "True or False", net)
    check_keys(metadata, (_ROW_CHANGES, _KEY, _NET, _WHERE, _COLUMNS), asset)
    return of, {
        "key": (key,) if isinstance(key, str) and key else names_of(metadata, _KEY, asset),
        "net": bool(net),
        "where": predicate_of(metadata, _WHERE, asset),
        "columns": names_of(metadata, _COLUMNS, asset),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRowChanges:
    """The row changes up to one stored version. StoredInput.

    since:    the version before the changes; None: all rows of the version, as inserts.
    options:  without those of reading the data files.
    from_log: whether to read the log, because the store lacks versions between the two.
    """

    snapshots: RunSnapshots
    table: str
    since: int | None
    last: int
    options: RowChangeOptions
    from_log: bool

    def value(self) -> DataFrame:
        """Return the changes as a Spark DataFrame.

        Errors: the errors of `SnapshotStore.row_changes_since` or `DeltaLog.row_changes`; DeltaSnapError if Spark
        fails.
        """
        with using_spark(self.table):
            return self._changes()

    def arrow(self) -> pa.Table:
        """Return the changes as an Arrow table, in memory. Errors: as `value`."""
        with using_spark(self.table):
            return collected_rows(self._changes(), self.options["where"])

    def _changes(self) -> DataFrame:
        settings = self.snapshots.table(self.table)
        wanted = self.options | {"options": ScanOptions(storage_options=located(settings).storage_options)}
        if self.from_log and self.since is not None:
            return self.snapshots.log(settings).row_changes(self.since + 1, self.last, **wanted)
        return self.snapshots.store.row_changes_since(self.table, self.since, self.last, **wanted)


def row_changes_of(
    snapshots: RunSnapshots, table: str, versions: Sequence[int], of: str, options: RowChangeOptions
) -> dict[int, StoredRowChanges]:
    """Return the row changes of an input, by version. of, options: as returned by `change_selection`.

    Errors: LastRunError; StoredVersionNotFoundError.
    """
    if of == OF_VERSION:
        return {
            version: StoredRowChanges(
                snapshots=snapshots, table=table, since=version - 1 if version else None, last=version,
                options=options, from_log=False,
            )
            for version in versions
        }  # fmt: skip
    asset = ConsumingAsset.of_step(table)
    if getattr(asset.context.assets_def.partitions_def, "name", None) == version_partitions(table).name:
        raise asset.error(f"each of its partitions is a version, so use {_ROW_CHANGES!r}: {OF_VERSION!r}")
    if not versions:
        return {}
    if len(versions) > 1:
        reason = f"expected one version to read up to, found {len(versions)}; use partition_mapping=LatestVersion()"
        raise asset.error(reason)
    return {versions[0]: _since_last_run(snapshots, asset, table, versions[0], options)}


def _since_last_run(
    snapshots: RunSnapshots, asset: ConsumingAsset, table: str, version: int, options: RowChangeOptions
) -> StoredRowChanges:
    current = snapshots.versions.names(table)
    manifest, last_read = snapshots.versions.manifests(table, [version])[version], asset.last_read()
    since = None if last_read is None else last_read.version
    if last_read is not None:
        stored = snapshots.versions.manifests(table, [last_read.version]) if last_read.version in current else {}
        if not last_read.is_before(manifest, stored.get(last_read.version)):
            raise asset.error(
                f"that run read version {since}, which the history of version {version} no longer contains, because "
                "the table was rolled back, restored or created again. To start from all rows, wipe the "
                "materializations of the asset"
            )
    missing = [] if since is None else [found for found in range(since + 1, version) if found not in current]
    if missing:
        common = snapshots.store.common_version(table, log_of(snapshots.table(table)))
        if common.version is None or common.version < version:
            raise asset.error(f"version {missing[0]} is not stored, and {common}")
    asset.record(ReadVersion.of(manifest), since)
    return StoredRowChanges(
        snapshots=snapshots, table=table, since=since, last=version, options=options, from_log=bool(missing)
    )
