"""The rows of a version as an input, selected by metadata of the input.

    dg.AssetIn(["events", "all_files"], metadata={"rows": True, "where": "amount > 10", "columns": ["id"]})

`where` and `columns` are optional, as in `Snapshot.scan`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_assets.settings.located import located
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import DeltaSnapError, Scan, ScanOptions, VersionManifest

ROWS_OF = "all_files"
"""The asset whose input can be rows. Its versions list the files that contain the rows."""

_ROWS, _WHERE, _COLUMNS = "rows", "where", "columns"


def row_selection(
    metadata: Mapping[str, Any], asset: str, name: str
) -> tuple[str | None, tuple[str, ...] | None] | None:
    """Return the condition and the columns of the rows that an input selects; None: the input is the asset itself.

    The condition is None for all rows, the columns are None for all of them.
    asset: its key in messages. name: which of the five assets it is.
    Errors: DeltaSnapError for invalid metadata.
    """
    rows = metadata.get(_ROWS)
    if not isinstance(rows, bool | None):
        raise invalid_metadata(asset, _ROWS, "True or False", rows)
    if not rows:
        for key in (_WHERE, _COLUMNS):
            if key in metadata:
                raise invalid_metadata(asset, _ROWS, f"True, because {key!r} is set", rows)
        return None
    if name != ROWS_OF:
        raise invalid_metadata(asset, _ROWS, f"an input of {ROWS_OF}", name)
    check_keys(metadata, (_ROWS, _WHERE, _COLUMNS), asset)
    return predicate_of(metadata, _WHERE, asset), names_of(metadata, _COLUMNS, asset)


def invalid_metadata(asset: str, key: str, expected: str, found: object) -> DeltaSnapError:
    """Return the error for an invalid value in the metadata of an input."""
    return DeltaSnapError(f"Input {asset}: metadata {key!r}: expected {expected}, found {found!r}.")


def check_keys(metadata: Mapping[str, Any], known: Sequence[str], asset: str) -> None:
    """Raise an error for a key that is not known. Keys with a namespace, as in `dagster/uri`, are ignored."""
    for key in metadata:
        if key not in known and "/" not in key:
            raise invalid_metadata(asset, key, f"one of the keys {', '.join(known)}", key)


def predicate_of(metadata: Mapping[str, Any], key: str, asset: str) -> str | None:
    """Return the condition in the metadata of an input; None: it has none. Errors: DeltaSnapError."""
    found = metadata.get(key)
    if not isinstance(found, str | None):
        raise invalid_metadata(asset, key, "a condition in SQL", found)
    return found


def names_of(metadata: Mapping[str, Any], key: str, asset: str) -> tuple[str, ...] | None:
    """Return the names of columns in the metadata of an input; None: it has none. Errors: DeltaSnapError."""
    found = metadata.get(key)
    if found is None:
        return None
    if isinstance(found, str) or not _are_names(found):
        raise invalid_metadata(asset, key, "a list of names", found)
    return tuple(found)


def _are_names(found: object) -> bool:
    return isinstance(found, Sequence) and bool(found) and all(isinstance(name, str) for name in found)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of one stored version. StoredInput. where, columns: as returned by `row_selection`."""

    snapshots: RunSnapshots
    table: str
    manifest: VersionManifest
    where: str | None
    columns: tuple[str, ...] | None

    def value(self) -> DataFrame:
        """Return the rows as a Spark DataFrame.

        Errors: PredicateError; ValueError for an unknown column; the errors of a scan; DeltaSnapError if Spark fails.
        """
        with using_spark(self.table):
            return self._scan().to_df()

    def arrow(self) -> pa.Table:
        """Return the rows as an Arrow table, in memory. Errors: as `value`."""
        with using_spark(self.table):
            return self._scan().to_arrow()

    def _scan(self) -> Scan:
        options = ScanOptions(storage_options=located(self.snapshots.table(self.table)).storage_options)
        return self.snapshots.store.scan(self.table, self.manifest, self.where, self.columns, options=options)
