"""The rows that versions of a table changed, as a DataFrame."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypedDict

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from deltasnap_core.errors import RowChangesError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.redaction import redacted
from deltasnap_core.replay.spark.session.local_rows import arrow_rows, no_rows
from deltasnap_core.rules.texts.sql_text import quoted, timestamp_sql
from deltasnap_core.scan.changes.changed_rows import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    CHANGE_TYPES,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    FileAction,
    LiveFilesBefore,
    changed_rows,
)
from deltasnap_core.scan.changes.row_comparison import difference, net_changes, paired
from deltasnap_core.scan.changes.schema_changes import check_schemas
from deltasnap_core.scan.file_lookup import data_files
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.physical_schema import OWN_PREFIX, logical_schema
from deltasnap_core.scan.predicate_analysis import checked_skipping
from deltasnap_core.scan.predicates.spark_text import spark_text
from deltasnap_core.scan.row_reader import read_rows
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.table_columns import TableColumns

_IS_INSERT, _MS = f"{OWN_PREFIX}is_insert", f"{OWN_PREFIX}ms"
_TAGS = (_IS_INSERT, COMMIT_VERSION, _MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedVersion:
    """A version whose changes are read.

    timestamp: ms since the epoch.
    metadata_before: of the version before; its partition columns are those of the removed files.
    is_recorded: whether the version is in a change data feed: then without files of change data, it has only inserts or
                 deletes, and no row is compared.
    """

    timestamp: int
    metadata: Metadata
    metadata_before: Metadata
    is_recorded: bool


class RowChangeOptions(TypedDict, total=False):
    """The options of `DeltaLog.row_changes`, `SnapshotStore.row_changes` and `SnapshotStore.row_changes_since`.

    key:     names of columns, or of fields in structs, such as `address.city`. A delete and an insert of one key in one
             version become an update. None: no key.
    net:     whether to return the difference between before the first version and the last one instead of each change.
    where:   a condition in Spark SQL on the columns of the result. It may keep only one of the two rows of an update.
    columns: names of columns of the table; None: all. `_change_type`, `_commit_version` and `_commit_timestamp` are
             always returned.
    options: for reading the data files.
    """

    key: Sequence[str] | str | None
    net: bool
    where: str | None
    columns: Sequence[str] | None
    options: ScanOptions | None


def check_options(options: Mapping[str, Any], known: type) -> None:
    """Raise TypeError for an unknown option. known: a TypedDict."""
    for name in options.keys() - known.__annotations__.keys():
        raise TypeError(f"unexpected option {name!r}, expected {', '.join(known.__annotations__)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """The changes of some versions.

    table:    the table at the last version; the result has its schema.
    versions: by number, ascending.
    rows:     the changed rows.
    """

    table: ScannedTable
    versions: Mapping[int, ChangedVersion]
    rows: Sequence[FileAction]

    def to_df(self, options: RowChangeOptions) -> DataFrame:
        """Return the changes; Spark reads the rows when the DataFrame runs. Errors: see DeltaLog.row_changes."""
        where, names, key = options.get("where"), options.get("columns"), options.get("key")
        net = options.get("net", False)
        if where is not None:
            checked_skipping(_with_fields(self.table, *_CHANGE_FIELDS), where)
        columns = None if names is None else self.table.columns.selected(names)
        if key is None and not net:
            changes = self._of_each_version(where)
        else:
            changes = self._by_key(None if key is None else self._key(key), net=net)
        if where is not None:
            changes = changes.where(spark_text(where))
        return changes if columns is None else changes.select(*columns, *CHANGE_COLUMNS)

    def _of_each_version(self, where: str | None) -> DataFrame:
        """Return the changes of each version. where: files without such rows may be left out.

        Equal rows have equal partition values. So if a file is left out, equal rows in other files do not meet the
        condition either: whether they cancel out makes no difference.
        """
        compared = self._compared_versions
        rewritten = [each for each in self.rows if each.version in compared]
        others = [each for each in self.rows if each.version not in compared]
        if not rewritten:
            return self._read(others, where)
        found = difference(self._read(rewritten, where), logical_schema(self.table.schema))
        return found.unionAll(self._read(others, where)) if others else found

    def _by_key(self, key: Sequence[Sequence[str]] | None, *, net: bool) -> DataFrame:
        if self._only_adds and (not net or len({each.version for each in self.rows}) <= 1):
            return self._read(self.rows)  # nothing to cancel or to pair, and each row has its version
        schema = logical_schema(self.table.schema)
        changes = difference(self._read(self.rows), schema)
        if net:
            changes = net_changes(changes, schema, key)
        return changes if key is None else paired(changes, schema, key)

    @property
    def _only_adds(self) -> bool:
        return all(each.change == INSERT for each in self.rows)

    @property
    def _compared_versions(self) -> frozenset[int]:
        """The versions that may delete and insert equal rows: a rewritten file contains rows that did not change."""
        changes: dict[int, set[str | None]] = defaultdict(set)
        for each in self.rows:
            changes[each.version].add(each.change)
        return frozenset(
            version
            for version, found in changes.items()
            if {INSERT, DELETE} <= found and not self.versions[version].is_recorded
        )

    def _key(self, key: Sequence[str] | str) -> list[tuple[str, ...]]:
        names = [key] if isinstance(key, str) else list(key)
        if not names:
            raise ValueError("expected the names of the columns of a key, found none")
        return [self.table.columns.named(name).path for name in names]

    def _read(self, rows: Sequence[FileAction], where: str | None = None) -> DataFrame:
        """Return changed rows with CHANGE_COLUMNS, as the files have them.

        where: files are left out if the condition is not true for any row with their partition values.
        """
        groups: dict[tuple[bool, tuple[str, ...]], list[FileAction]] = defaultdict(list)
        for each in rows:
            facts = self.versions[each.version]
            metadata = facts.metadata_before if each.change == DELETE else facts.metadata
            groups[each.change is None, metadata.partition_columns].append(each)
        if where is not None:
            for alike, group in groups.items():
                table = _with_fields(self._partitioned_by(alike[1], version=None), *_CHANGE_FIELDS)
                groups[alike] = rows_in_partitions(table, group, where)
        frames = [self._read_alike(group, *alike) for alike, group in groups.items() if group]
        if not frames:
            return no_rows(self.table.spark, _result_schema(self.table))
        return reduce(DataFrame.unionAll, frames)

    def _partitioned_by(self, columns: tuple[str, ...], *, version: int | None) -> ScannedTable:
        metadata = replace(self.table.metadata, partition_columns=columns)
        return _with_metadata(self.table, metadata, version=version)

    def _read_alike(
        self, rows: Sequence[FileAction], is_change_data: bool, partition_columns: tuple[str, ...]
    ) -> DataFrame:
        versions = {each.version for each in rows}
        table = self._partitioned_by(partition_columns, version=versions.pop() if len(versions) == 1 else None)
        table = _with_fields(table, *(_CHANGE_FIELDS[:1] if is_change_data else ()))
        found = read_rows(table, self._data_files(table, rows), tags=_TAGS)
        change = F.when(F.col(_IS_INSERT) == 1, INSERT).otherwise(DELETE)
        if is_change_data:
            found, change = found.where(_has_known_type()), F.col(CHANGE_TYPE)
        return found.select(
            *(quoted(name) for name in self.table.schema.names),
            change.alias(CHANGE_TYPE),
            COMMIT_VERSION,
            F.expr(timestamp_sql(_MS)).alias(COMMIT_TIMESTAMP),
        )

    def _data_files(self, table: ScannedTable, rows: Sequence[FileAction]) -> list[DataFile]:
        found = data_files(table, [_file(each) for each in rows])
        tags = [(int(each.change == INSERT), each.version, self.versions[each.version].timestamp) for each in rows]
        return [replace(file, only=each.only, tags=tag) for file, each, tag in zip(found, rows, tags, strict=True)]


def planned_changes(
    table: ScannedTable,
    versions: Mapping[int, ChangedVersion],
    *,
    actions: Sequence[FileAction],
    recorded: Sequence[FileAction] = (),
    live_before: LiveFilesBefore | None = None,
) -> RowChanges:
    """Return the changes of versions, after checking that one schema can read them all.

    versions:    by number, ascending.
    actions:     the file actions of all versions.
    recorded:    the files of change data; the rows of their versions are read from these only.
    live_before: returns the live files of the version before the first; None: see `changed_rows`.
    Errors: RowChangesError, and those of reading deletion vectors.
    """
    first = min(versions)
    rows = changed_rows(
        actions,
        table.vectors.rows,
        live_before if first else lambda _: (),
        recorded={each.version for each in recorded},
    )
    metadata = {version: each.metadata for version, each in versions.items()}
    before = {version: each.metadata_before for version, each in versions.items()}
    deleting = {each.version for each in rows if each.change == DELETE}
    read = {first - 1: before[first], **metadata} if first in deleting else metadata
    check_schemas(read, path=redacted(table.table_path), deleting=deleting)
    _check_partition_values(rows, before, table.table_path)
    _check_partition_values(recorded, metadata, table.table_path)
    names = {version: _other_names(metadata[version], table) for version in metadata}
    names_before = {version: _other_names(before[version], table) for version in deleting}
    found = [
        _renamed(each, (names_before if each.change == DELETE else names)[each.version]) for each in (*recorded, *rows)
    ]
    return RowChanges(table=table, versions=versions, rows=found)


def changed_versions(
    metadata: Mapping[int, Metadata],
    metadata_before: Metadata,
    timestamps: Mapping[int, int],
    has_feed: Collection[int] = (),
) -> dict[int, ChangedVersion]:
    """Return the versions whose changes are read.

    metadata, timestamps: by version, ascending. metadata_before: of the version before the first.
    has_feed: the versions at which the table has a change data feed, except those that only copied rows.
    """
    return {
        version: ChangedVersion(
            timestamp=timestamps[version],
            metadata=of_version,
            metadata_before=metadata.get(version - 1, metadata_before),
            is_recorded=version in has_feed,
        )
        for version, of_version in metadata.items()
    }


def _other_names(metadata: Metadata, table: ScannedTable) -> Mapping[str, str]:
    """Return the partition columns of a version whose names have another case in the last version, with those names."""
    if metadata.schema_string == table.metadata.schema_string:
        return {}
    now = {column.physical_name.lower(): column.physical_name for column in table.columns.top}
    names = (column.physical_name for column in TableColumns(metadata).partition)
    return {name: now[name.lower()] for name in names if now.get(name.lower(), name) != name}


def _renamed(rows: FileAction, names: Mapping[str, str]) -> FileAction:
    if not names or rows.partition_values is None:
        return rows
    values = {names.get(key, key): value for key, value in rows.partition_values.items()}
    return replace(rows, partition_values=values)


def _check_partition_values(rows: Sequence[FileAction], metadata: Mapping[int, Metadata], table_path: str) -> None:
    """Raise RowChangesError if the partition values of a file are unknown: writers may omit those of a remove."""
    for each in rows:
        if each.partition_values is None and metadata[each.version].partition_columns:
            found = f"the removed file {each.path}, found no add action of it"
            if each.change is None:
                found = f"the file of change data {each.path}, found none"
            reason = f"expected the partition values of {found}"
            raise RowChangesError(path=redacted(table_path), version=each.version, reason=reason)


def _has_known_type() -> Column:
    """Return a condition for rows of change data. It raises an error for a row that is no change: a filter is always
    evaluated, unlike a column that the caller does not read.
    """
    is_known = F.col(CHANGE_TYPE).isin(*CHANGE_TYPES)
    place = F.concat(F.lit("deltasnap: the change data of version "), F.col(COMMIT_VERSION).cast("string"))
    unknown = F.concat(place, F.lit(" has an unknown _change_type: "), F.coalesce(CHANGE_TYPE, F.lit("null")))
    return F.when(is_known, F.lit(True)).otherwise(F.raise_error(unknown))


_CHANGE_FIELDS = tuple(
    StructField(name, kind)
    for name, kind in zip(CHANGE_COLUMNS, (StringType(), LongType(), TimestampType()), strict=True)
)


def _file(rows: FileAction) -> dict[str, Any]:
    return {
        "path": rows.path,
        "partitionValues": dict(rows.partition_values or {}),
        "size": rows.size,
        "modificationTime": rows.modification_time,
        "deletionVector": rows.vector and rows.vector.to_json(),
    }


def _result_schema(table: ScannedTable) -> StructType:
    return StructType([*logical_schema(table.schema), *_CHANGE_FIELDS])


def _with_fields(table: ScannedTable, *fields: StructField) -> ScannedTable:
    """Return a table with more columns."""
    schema = decode_json(table.metadata.schema_string or '{"type":"struct","fields":[]}')
    schema = {**schema, "fields": [*schema["fields"], *(field.jsonValue() for field in fields)]}
    return _with_metadata(table, replace(table.metadata, schema_string=json.dumps(schema)), version=table.version)


def _with_metadata(table: ScannedTable, metadata: Metadata, *, version: int | None) -> ScannedTable:
    return replace(table, version=version, metadata=metadata, is_checked=True, place=None)


def rows_in_partitions(table: ScannedTable, rows: list[FileAction], where: str) -> list[FileAction]:
    """Return the rows whose partition values do not rule out a condition; at most one Spark job.

    table: with the columns that the condition may use, and the partition columns of the files.
    Errors: PredicateError.
    """
    if not table.metadata.partition_columns:
        return rows
    checked = checked_skipping(table, where)
    skipping = checked.sure or checked
    if skipping.partitions is None:
        return rows
    values = [list((each.partition_values or {}).items()) for each in rows]
    numbered = {
        "number": pa.array(range(len(rows)), pa.int64()),
        "partitionValues": pa.array(values, pa.map_(pa.string(), pa.string())),
    }
    files = arrow_rows(table.spark, pa.table(numbered))
    found = files.where(f"coalesce({skipping.partitions}, true)").select("number").toArrow()
    return [rows[number] for number in sorted(found["number"].to_pylist())]
