"""Reads and writes the rows of stored versions with Spark. Counterpart with equal rows: `driver_rows.py`.

A base has the columns key, add, remove; changes also have version. `key` is a hash of the logical file's decoded path.
Each file is sorted by it, so that a lookup of a few files reads few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import LongType, StructField, StructType

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark.reading.action_reader import MEASURED_FILE_ACTIONS, ActionReader, with_keys
from deltasnap_core.replay.spark.reading.file_action_layout import FULL, measured
from deltasnap_core.replay.spark.reading.schemas import FILE_ACTION_COLUMNS
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.state_deltas import changes_of_versions, counted, deltas_of_range
from deltasnap_core.replay.spark.state_reconstruction import is_small
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.expiry import expiring_sql
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.manifest import DataSet, StoreFile, VersionManifest
from deltasnap_core.store.rows.apply_step import ApplyResult, ApplyStep
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.row_groups import KEY_COLUMN

BROADCAST_ROWS = 200_000
"""Changes up to this many rows are sent to every task that scans the base."""

SINGLE_TASK_ROWS = 50_000
"""Changes up to this many rows are grouped in one task, without a shuffle."""

ROWS_A_FILE = 500_000

MAX_KEYS = 256
"""Up to this many logical files are looked up by key; for more, the whole base is read."""

Keys: TypeAlias = Sequence[int] | range
"""Keys of logical files, or all in a range."""

_DELETION_TIME = StructType([StructField("deletionTimestamp", LongType())])
_KEY_FIELD = StructField(KEY_COLUMN, LongType())
_VERSION_FIELD = StructField("version", LongType())


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRows:
    """Reads and writes the rows of one table's versions.

    action_schema: for reading add and remove; fewer fields cost less.
    """

    parquet: ParquetFiles
    log_path: str
    action_schema: StructType = FILE_ACTION_COLUMNS

    def read_with(self, action_schema: StructType) -> SparkRows:
        """Return the same rows, read with another schema of add and remove."""
        return replace(self, action_schema=action_schema)

    def base_of(self, manifest: VersionManifest, keys: Keys | None = None) -> DataFrame | None:
        """Return the reconciled file actions of the base of a stored version (FULL); None: there are none."""
        base = self.parquet.read(manifest.base.files, self._schema())
        return None if base is None else self._keyed(_only(base, keys))

    def state_of(self, manifest: VersionManifest, keys: Keys | None = None) -> DataFrame | None:
        """Return the reconciled file actions of a stored version (FULL); None: there are none.

        keys: read only the logical files with these keys (and perhaps more); None: all.
        """
        changes = self.changes(manifest.changes, manifest.version, keys)
        commits = None
        if changes is not None:
            in_one = changes.coalesce(1) if manifest.change_rows <= SINGLE_TASK_ROWS else changes
            commits = in_one.selectExpr("*", "version as commit_version", "0 as line_number")
        return FULL.reconcile(self.base_of(manifest, keys), commits, broadcast=manifest.change_rows <= BROADCAST_ROWS)

    def keys_touched_or_expiring(
        self, manifest: VersionManifest, changes: DataFrame | None, after: Retention
    ) -> list[int] | None:
        """Return the keys of stored rows that changes affect, and those of tombstones that expire in the range.

        changes: those after the version (FULL). after: which tombstones the last of the changes keeps.
        None: too many to look up. It reads only the deletion times and the keys of the stored rows.
        """
        before = manifest.retention
        if before.keeps(None) and not after.keeps(None):  # tombstones without a time expire too
            return None
        keys = [] if changes is None else [changes.select(_key().alias(KEY_COLUMN))]
        schema = StructType([_KEY_FIELD, StructField("remove", _DELETION_TIME)])
        files = [file for data_set in (manifest.base, *manifest.changes) for file in data_set.files]
        stored = self.parquet.read(files, schema)
        if stored is not None and not before.is_within(after):
            keys.append(stored.where(expiring_sql(before, after, "remove.deletionTimestamp")).select(KEY_COLUMN))
        found = reduce(DataFrame.unionByName, keys).limit(MAX_KEYS * 4).collect() if keys else []
        distinct = {row[KEY_COLUMN] for row in found}
        return None if len(found) == MAX_KEYS * 4 or len(distinct) > MAX_KEYS else sorted(distinct)

    def state_in_pieces(self, manifest: VersionManifest, pieces: int) -> Iterator[DataFrame]:
        """Yield the reconciled file actions of a stored version (FULL) in pieces. Each reads only its range of keys."""
        step = -(-(1 << 64) // max(pieces, 1))
        for start in range(-(1 << 63), 1 << 63, step):
            rows = self.state_of(manifest, range(start, min(start + step, 1 << 63)))
            if rows is not None:
                yield rows

    def changed_states(
        self, earlier: VersionManifest, manifest: VersionManifest
    ) -> tuple[DataFrame | None, DataFrame | None]:
        """Return the reconciled file actions (FULL) of two versions with one base that the changes between touch.

        Perhaps also others, which are the same in both. None: there are none.
        """
        changes = self.changes(manifest.changes, manifest.version)
        if changes is None:
            return None, None
        changes = changes.where(F.col("version") > earlier.version)
        keys = self.keys_touched_or_expiring(manifest, changes, manifest.retention)
        before, after = self.state_of(earlier, keys), self.state_of(manifest, keys)
        return (before, after) if keys is not None else (_touched(before, changes), _touched(after, changes))

    def urls(self, manifest: VersionManifest, *sets: DataSet) -> list[str]:
        """Return the URLs of the files of a version, and of further sets."""
        files = [file for data_set in (manifest.base, *manifest.changes, *sets) for file in data_set.files]
        return [join_url(self.parquet.folder, file.path) for file in files]

    def changes(self, sets: Sequence[DataSet], up_to: int, keys: Keys | None = None) -> DataFrame | None:
        """Return the changes in sets, up to a version: version, and FULL; None: there are none."""
        files = [file for data_set in sets for file in data_set.files]
        rows = self.parquet.read(files, self._schema(_VERSION_FIELD))
        if rows is None:
            return None
        return self._keyed(_only(rows.where(F.col("version") <= up_to), keys), "version")

    def write_base(self, state: DataFrame | None, path: str, version: int) -> DataSet:
        """Write the whole state of a version (FULL) into a new folder. Return the data set."""
        if state is None:
            return DataSet(first=version, last=version, files=())
        rows = state.select(_key().alias(KEY_COLUMN), "add", "remove")
        return DataSet(first=version, last=version, files=self.parquet.write_by_key(rows, path))

    def apply(self, step: ApplyStep, reader: ActionReader) -> ApplyResult:
        """Write the changes of a step, and return them with the StateDelta of each version.

        reader: of the commits. Errors: CorruptLogError.
        """
        log_files = [commit.path for commit in step.batch.files]
        with translated(log_files, self.urls(step.previous)):
            changes = self._write_changes(step, reader)
        with translated(stored_files=self.urls(step.previous, changes)):
            return changes, self._deltas(step, changes)

    def _write_changes(self, step: ApplyStep, reader: ActionReader) -> DataSet:
        commits = reader.commit_actions(step.batch)
        changes = None if commits is None else changes_of_versions(commits)
        earlier = self.changes(step.merged, step.previous.version)
        if earlier is not None:
            changes = earlier if changes is None else earlier.unionByName(changes)
        files: tuple[StoreFile, ...] = ()
        if changes is not None:
            named = changes.select("version", _key().alias(KEY_COLUMN), "add", "remove")
            in_files = named.repartition(max(1, -(-step.rows_to_write // ROWS_A_FILE)))
            files = self.parquet.write_by_key(in_files, step.folder)
        return DataSet(first=step.first, last=step.last, files=files)

    def _deltas(self, step: ApplyStep, written: DataSet) -> dict[int, StateDelta]:
        """Return the changes that the versions make to the state. Reads only the columns for the counts."""
        rows = self.read_with(MEASURED_FILE_ACTIONS)
        changes = rows.changes((written,), step.last)
        if changes is not None:
            changes = changes.where(F.col("version") > step.previous.version)
        keys = rows.keys_touched_or_expiring(step.previous, changes, step.retentions[step.last])
        files = rows.state_of(step.previous, keys)
        return deltas_of_range(files, changes, step.non_file, step.retentions, broadcast=is_small(step.batch))

    def counted(self, manifest: VersionManifest, non_file: NonFileActions, retention: Retention) -> StateDelta:
        """Return the StateDelta that counts the files of a version. Errors: MissingSizeError."""
        files = self.read_with(MEASURED_FILE_ACTIONS).state_of(manifest)
        return counted(None if files is None else measured(files), non_file, retention)

    def _schema(self, *fields: StructField) -> StructType:
        return StructType([*fields, _KEY_FIELD, *self.action_schema.fields])

    def _keyed(self, rows: DataFrame, *others: str) -> DataFrame:
        return with_keys(rows, self.log_path, *others)


def _key() -> Column:
    return F.xxhash64("path_key")


def _touched(files: DataFrame | None, changes: DataFrame) -> DataFrame | None:
    return None if files is None else FULL.join(files, changes, how="left_semi", broadcast=True)


def _only(rows: DataFrame, keys: Keys | None) -> DataFrame:
    if keys is None:
        return rows
    if isinstance(keys, range):
        return rows.where(F.col(KEY_COLUMN).between(keys.start, keys.stop - 1))
    # A chain of comparisons: Parquet checks each against the pages. For a list, it uses only the range of values.
    return rows.where(" or ".join(f"{KEY_COLUMN} = {key}L" for key in keys) or "false")
