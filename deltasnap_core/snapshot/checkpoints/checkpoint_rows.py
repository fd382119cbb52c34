"""The rows of a checkpoint, with the columns and types of Delta's Spark writer, and a digest of its file actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.properties.table_config import writes_stats_as_json, writes_stats_as_struct
from deltasnap_core.protocol.table_features import metadata_to_read
from deltasnap_core.replay.spark.reading.schemas import STATE
from deltasnap_core.replay.spark.session.local_rows import local_rows
from deltasnap_core.rules.file_actions import vector_sql
from deltasnap_core.rules.texts.sql_text import exact_sum_sql, quoted
from deltasnap_core.rules.texts.whole_json import whole_characters_sql
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.snapshot.checkpoints.parsed_columns import partition_values, statistics_sql

_ADD = (
    "path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "deletionVector", "baseRowId",
    "defaultRowCommitVersion", "clusteringProvider",
)  # fmt: skip
_REMOVE = (
    "path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size", "deletionVector",
    "baseRowId", "defaultRowCommitVersion",
)  # fmt: skip
_COLUMNS = ("txn", "add", "remove", "metaData", "protocol", "domainMetadata")
_MAPS = ("partitionValues", "tags")
_TIMES = ("date", "timestamp")
_STATS = whole_characters_sql("add.stats")
_VECTOR = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality", "maxRowIndex")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointColumns:
    """The columns of a checkpoint that depend on the table.

    has_stats:        whether `add.stats` has the statistics as JSON.
    statistics:       SQL for `add.stats_parsed`; None: no such column.
    partition_values: name and SQL of the fields of `add.partitionValues_parsed`; empty: no such column.
    has_times:        whether these two columns may have dates or timestamps. Every session writes the same
                      `timestamp_ntz`.
    Source: PROTOCOL.md, Checkpoint Schema. Delta's `Checkpoints.buildCheckpoint`.
    """

    has_stats: bool
    statistics: str | None
    partition_values: tuple[tuple[str, str], ...]
    has_times: bool

    @classmethod
    def of(cls, metadata: Metadata, protocol: Protocol) -> CheckpointColumns:
        """Return the columns for a table, by its properties `delta.checkpoint.writeStatsAs...`."""
        metadata = metadata_to_read(protocol, metadata)
        has_struct = writes_stats_as_struct(metadata.configuration)
        return cls(
            has_stats=writes_stats_as_json(metadata.configuration),
            statistics=statistics_sql(metadata, protocol) if has_struct else None,
            partition_values=partition_values(metadata) if has_struct else (),
            has_times=has_struct and any(leaf.data_type in _TIMES for leaf in TableColumns(metadata).leaves),
        )

    @property
    def keeps_records(self) -> bool:
        """Whether the checkpoint has the number of records of each file."""
        return self.has_stats or self.statistics is not None

    def file_rows(self, files: DataFrame) -> DataFrame:
        """Return the columns add and remove of a checkpoint. files: add and remove with all fields of the log."""
        return files.select(self._add().alias("add"), _struct("remove", _REMOVE).alias("remove"))

    def all_rows(self, spark: SparkSession, files: DataFrame | None, non_file: NonFileActions) -> DataFrame:
        """Return all rows of a classic checkpoint, one action each. files: None: there are none."""
        rows = local_rows(spark, non_file.rows(), STATE)
        if files is not None:
            rows = rows.unionByName(files.select("add", "remove"), allowMissingColumns=True)
        replaced = {"add": self._add(), "remove": _struct("remove", _REMOVE)}
        return rows.select(*(replaced.get(name, F.col(name)).alias(name) for name in _COLUMNS))

    def _add(self) -> Column:
        others = []
        if self.has_stats:
            others.append(F.expr(_STATS).alias("stats"))
        if self.partition_values:
            values = [F.expr(sql).alias(name) for name, sql in self.partition_values]
            # Within `when`, the struct is nullable, as every field of a checkpoint.
            parsed = F.when(F.col("add.path").isNotNull(), F.struct(*values))
            others.append(parsed.alias("partitionValues_parsed"))
        if self.statistics is not None:
            others.append(F.expr(self.statistics).alias("stats_parsed"))
        return _struct("add", _ADD, *others)

    def digest(self) -> list[Column]:
        """Return the aggregates over file actions (add and remove) that `FileDigest` holds.

        They do not depend on the order of rows. Fields that this checkpoint leaves out are not included.
        """
        add = [name for name in _ADD if name != "dataChange"] + (["stats"] if self.has_stats else [])
        remove = [name for name in _REMOVE if name != "dataChange"]
        of_row = f"if(add.path is not null, {_hash('add', add)}, {_hash('remove', remove)})"
        return [
            F.count("add.path").alias("files"),
            F.count("remove.path").alias("tombstones"),
            F.expr(exact_sum_sql(of_row)).alias("total"),
            F.expr(f"coalesce(bit_xor({of_row}), 0)").alias("mixed"),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """The number of live files and of tombstones, and two sums over the hashes of their actions."""

    files: int
    tombstones: int
    total: int
    mixed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> FileDigest:
        """Return the digest from a row of the aggregates."""
        return cls(**{name: int(row[name]) for name in ("files", "tombstones", "total", "mixed")})


NO_FILES = FileDigest(files=0, tombstones=0, total=0, mixed=0)


def _struct(action: str, names: tuple[str, ...], *others: Column) -> Column:
    is_set = F.col(f"{action}.path").isNotNull()
    # A checkpoint changes no data.
    replaced = {"dataChange": F.when(is_set, F.lit(False)), "deletionVector": F.expr(vector_sql(action))}
    named = [replaced.get(name, F.col(f"{action}.{name}")).alias(name) for name in names]
    return F.when(is_set, F.struct(*named, *others))


def _hash(action: str, names: list[str]) -> str:
    """Return SQL for the hash of an action. A number precedes each value, because the hash skips nulls."""
    values = []
    for name in names:
        if name in _MAPS:
            values.append(f"to_json({action}.{name}, map('ignoreNullFields', 'false'))")
        elif name == "deletionVector":
            values += [f"{action}.{name}.{quoted(field)}" for field in _VECTOR]
        else:
            values.append(_STATS if name == "stats" else f"{action}.{name}")
    return f"xxhash64('{action}', {', '.join(f'{place}, {value}' for place, value in enumerate(values))})"
