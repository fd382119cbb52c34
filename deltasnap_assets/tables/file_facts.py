"""Facts about the files of one version, from one pass: partitions, largest and smallest files, expiry of tombstones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, functions as F

from deltasnap_assets.checks.compaction import Compaction, PartitionFiles
from deltasnap_assets.checks.facts import CountedFiles, FileFacts, TombstoneFacts
from deltasnap_core import SnapshotState, SnapshotStore, VersionManifest
from deltasnap_core.support import deleted_file_retention_ms, path_key_sql, path_keys

_FILE_COLUMNS, _TOMBSTONE_COLUMNS = ("path", "partitionValues", "size"), ("path", "deletionTimestamp", "size")
_NAMED_FILES = 5
_NAMED_PARTITIONS = 10
_MAX_PARTITIONS = 100_000  # beyond, only the largest partitions are known
_MOST = (1 << 63) - 1


def count_files(
    store: SnapshotStore, table: str, manifest: VersionManifest, state: SnapshotState, now_ms: int
) -> CountedFiles:
    """Return the facts about the files of a stored version, from one pass. state: of that version."""
    configuration = {} if state.metadata is None else state.metadata.configuration
    retention_ms = deleted_file_retention_ms(configuration)
    count = FileCount(log_path=manifest.log_path, configuration=configuration, retention_ms=retention_ms, now_ms=now_ms)
    with store.files_and_tombstones(table, manifest, _FILE_COLUMNS, _TOMBSTONE_COLUMNS) as rows:
        files, tombstones = (count.in_driver if isinstance(rows[0], pa.Table) else count.on_spark)(*rows)
    return CountedFiles(
        version=manifest.version,
        generation=manifest.generation,
        counted_at_ms=now_ms,
        size_in_bytes=state.size_in_bytes,
        files=files,
        tombstones=tombstones,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCount:
    """The query for the facts, on both engines.

    log_path: of the rows. configuration: of the table. retention_ms: of tombstones, as of `now_ms`.
    """

    log_path: str
    configuration: Mapping[str, str]
    retention_ms: int
    now_ms: int

    def in_driver(self, files: pa.Table, tombstones: pa.Table) -> tuple[FileFacts, TombstoneFacts]:
        """Return the facts from rows in Arrow."""
        facts = _file_facts(
            _partitions(files),
            largest=_first_files(files, "descending"),
            smallest=_first_files(files, "ascending"),
            configuration=self.configuration,
        )
        gone = _tombstone_facts(tombstones, retention_ms=self.retention_ms, now_ms=self.now_ms)
        return facts, self._unneeded(gone, files, tombstones) if gone.num_files else gone

    def on_spark(self, files: DataFrame, tombstones: DataFrame) -> tuple[FileFacts, TombstoneFacts]:
        """Return the facts from rows in Spark."""
        sized = files.select("path", "size")
        named = {
            name: [(row.path, row.size) for row in sized.orderBy(order, "path").limit(_NAMED_FILES).collect()]
            for name, order in (("largest", F.desc("size")), ("smallest", F.asc("size")))
        }
        facts = _file_facts(_partitions_on_spark(files), **named, configuration=self.configuration)
        gone = _tombstone_facts_on_spark(tombstones, self._expires(), self.now_ms)
        return facts, self._unneeded_on_spark(gone, files, tombstones) if gone.num_files else gone

    def _unneeded(self, facts: TombstoneFacts, files: pa.Table, tombstones: pa.Table) -> TombstoneFacts:
        """Return the facts with the files that are not live, each once, by the latest of its tombstones.

        A file has a tombstone for each deletion vector that it had, also while it is live.
        """
        keyed = tombstones.append_column("key", path_keys(tombstones["path"].combine_chunks(), self.log_path))
        keyed = keyed.append_column("deleted", pc.fill_null(keyed["deletionTimestamp"], 0))
        by_file = keyed.group_by("key").aggregate([("deleted", "max"), ("size", "max")])
        live = path_keys(files["path"].combine_chunks(), self.log_path)
        unneeded = by_file.filter(pc.invert(pc.is_in(by_file["key"], live)))
        is_expired = pc.less_equal(unneeded["deleted_max"], self.now_ms - self.retention_ms)
        sizes = unneeded["size_max"].filter(is_expired)
        return replace(
            facts,
            num_expired=len(sizes),
            num_expired_without_size=sizes.null_count,
            expired_bytes=_total(sizes),
            time_travel_bytes=_total(unneeded["size_max"].filter(pc.invert(is_expired))),
        )

    def _unneeded_on_spark(self, facts: TombstoneFacts, files: DataFrame, tombstones: DataFrame) -> TombstoneFacts:
        key = F.expr(path_key_sql("path", self.log_path))
        expires = F.coalesce(self._expires(), F.lit(_MOST))
        by_key = tombstones.groupBy(key.alias("by"))  # a session may omit this column
        by_file = by_key.agg(F.max(key).alias("key"), F.max(expires).alias("expires"), F.max("size").alias("size"))
        unneeded = by_file.join(files.select(key.alias("key")), "key", "left_anti")
        is_expired = F.col("expires") <= self.now_ms
        row = unneeded.agg(
            F.count_if(is_expired).alias("files"),
            F.count_if(is_expired & F.col("size").isNull()).alias("without_size"),
            _sum_of(F.when(is_expired, F.col("size"))).alias("bytes"),
            _sum_of(F.when(~is_expired, F.col("size"))).alias("kept"),
        ).collect()[0]
        return replace(
            facts,
            num_expired=row.files,
            num_expired_without_size=row.without_size,
            expired_bytes=int(row.bytes),
            time_travel_bytes=int(row.kept),
        )

    def _expires(self) -> Column:
        """Return when a tombstone expires; null: never, because the sum overflows."""
        retention = F.lit(self.retention_ms).cast("long")  # some engines add only numbers of one type
        return F.try_add(F.coalesce("deletionTimestamp", F.lit(0)), retention)


def _file_facts(
    partitions: Sequence[PartitionFiles],
    *,
    largest: Sequence[tuple[str, int]],
    smallest: Sequence[tuple[str, int]],
    configuration: Mapping[str, str],
) -> FileFacts:
    """Return facts about live files. partitions: all, or more than _MAX_PARTITIONS of them, those with most bytes."""
    are_all = len(partitions) <= _MAX_PARTITIONS
    in_order = sorted(partitions, key=lambda each: (-each.size_in_bytes, each.label))
    sizes = [each.size_in_bytes for each in partitions]
    return FileFacts(
        largest=tuple(largest),
        smallest=tuple(smallest),
        partitions=tuple(in_order[:_NAMED_PARTITIONS]),
        num_partitions=len(partitions) if are_all else None,
        median_bytes=statistics.median(sizes) if sizes and are_all else None,
        compaction=Compaction.estimated(partitions, configuration) if are_all else None,
    )


def _first_files(files: pa.Table, order: str) -> list[tuple[str, int]]:
    """Return path and bytes of the first files by size, then by path."""
    if not files.num_rows:
        return []  # releases of pyarrow before 26 cannot select from no rows
    keys = [("size", order), ("path", "ascending")]
    rows = files.select(["path", "size"])
    found = rows.take(pc.select_k_unstable(rows, _NAMED_FILES, keys)).to_pylist()
    return [(row["path"], row["size"]) for row in found]


def _partitions(files: pa.Table) -> list[PartitionFiles]:
    if not files.num_rows:
        return []
    values = files["partitionValues"].combine_chunks()
    names = sorted(pc.unique(values.keys).to_pylist())
    columns = {f"value{number}": _texts_of(values, name) for number, name in enumerate(names)}
    rows = pa.table({**columns, "size": files["size"].cast(pa.decimal128(38, 0))})  # a sum may exceed 64 bits
    groups = rows.group_by([*columns]).aggregate([("size", "sum"), ([], "count_all")])
    if groups.num_rows > _MAX_PARTITIONS:
        groups = groups.take(pc.select_k_unstable(groups, _MAX_PARTITIONS + 1, [("size_sum", "descending")]))
    return [
        PartitionFiles(
            values={name: row[column] for name, column in zip(names, columns, strict=True)},
            num_files=row["count_all"],
            size_in_bytes=int(row["size_sum"] or 0),
        )
        for row in groups.to_pylist()
    ]


def _texts_of(values: pa.MapArray, name: str) -> pa.Array:
    """Return the values of a partition column. An empty text is null: PROTOCOL.md, Partition Value Serialization."""
    found = pc.map_lookup(values, query_key=pa.scalar(name), occurrence="first")
    return pc.if_else(pc.equal(found, ""), None, found)


def _partitions_on_spark(files: DataFrame) -> list[PartitionFiles]:
    pair = "named_struct('key', e.key, 'value', nullif(e.value, ''))"
    partition = F.expr(f"coalesce(array_sort(transform(map_entries(partitionValues), e -> {pair})), array())")
    groups = files.groupBy(partition.alias("by")).agg(  # a session may omit this column
        F.any_value(partition).alias("partition"), F.count("*").alias("files"), _sum_of(F.col("size")).alias("bytes")
    )
    rows = groups.orderBy(F.desc("bytes")).limit(_MAX_PARTITIONS + 1).toArrow().to_pylist()
    names = sorted({entry["key"] for row in rows for entry in row["partition"]})
    sums: dict[tuple[str | None, ...], tuple[int, int]] = {}
    for row in rows:
        values = {entry["key"]: entry["value"] for entry in row["partition"]}
        key = tuple(map(values.get, names))  # a missing value is null
        number, size = sums.get(key, (0, 0))
        sums[key] = number + row["files"], size + int(row["bytes"])
    return [
        PartitionFiles(values=dict(zip(names, key, strict=True)), num_files=number, size_in_bytes=size)
        for key, (number, size) in sums.items()
    ]


def _tombstone_facts(tombstones: pa.Table, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    times, sizes = pc.fill_null(tombstones["deletionTimestamp"], 0), tombstones["size"]
    known = times.filter(pc.less_equal(times, _MOST - retention_ms))  # a later time plus the retention is no time
    expires = pc.min_max(known).as_py()
    expired = sizes.filter(pc.less_equal(times, min(now_ms, _MOST) - retention_ms))
    return TombstoneFacts(
        num_files=len(sizes),
        size_in_bytes=_total(sizes),
        num_without_size=sizes.null_count,
        first_expires_ms=None if expires["min"] is None else expires["min"] + retention_ms,
        last_expires_ms=None if expires["max"] is None else expires["max"] + retention_ms,
        num_expired=len(expired),
        num_expired_without_size=expired.null_count,
        expired_bytes=_total(expired),
        time_travel_bytes=0,
    )


def _tombstone_facts_on_spark(tombstones: DataFrame, expires: Column, now_ms: int) -> TombstoneFacts:
    is_expired = expires <= F.lit(now_ms)
    row = tombstones.agg(
        F.count("*").alias("files"),
        _sum_of(F.col("size")).alias("bytes"),
        F.count_if(F.col("size").isNull()).alias("without_size"),
        F.min(expires).alias("first"),
        F.max(expires).alias("last"),
        F.count_if(is_expired).alias("expired"),
        F.count_if(is_expired & F.col("size").isNull()).alias("expired_without_size"),
        _sum_of(F.when(is_expired, F.col("size"))).alias("expired_bytes"),
    ).collect()[0]
    return TombstoneFacts(
        num_files=row.files,
        size_in_bytes=int(row.bytes),
        num_without_size=row.without_size,
        first_expires_ms=row["first"],
        last_expires_ms=row["last"],
        num_expired=row.expired,
        num_expired_without_size=row.expired_without_size,
        expired_bytes=int(row.expired_bytes),
        time_travel_bytes=0,
    )


def _total(sizes: pa.ChunkedArray) -> int:
    """Return the exact sum: one of sizes may exceed 64 bits."""
    return int(pc.sum(sizes.cast(pa.decimal128(38, 0))).as_py() or 0)


def _sum_of(sizes: Column) -> Column:
    """Return the exact sum as a decimal, 0 for no rows."""
    return F.coalesce(F.sum(sizes.cast("decimal(38, 0)")), F.lit(0))
