"""Facts about the files of one version (sizes, partitions, largest, smallest) and about its tombstones (expiry).

They come from the breakdown that the store keeps for the newest version. Only the newest version of a run has them:
for other versions, the store would have to count all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deltasnap_assets.checks.facts import FileFacts, SizeBin, TombstoneFacts
from deltasnap_assets.checks.partition_files import PartitionFiles
from deltasnap_core import (
    FileBreakdown,
    SnapshotState,
    SnapshotStore,
    TombstoneTimes,
    VersionManifest,
    arrow_rows,
    path_key_sql,
    path_keys,
)

_NAMED = 5
_MOST = (1 << 63) - 1
_WITH_VECTORS = {"deletionVectors", "checkpointProtection"}


def file_facts(breakdown: FileBreakdown) -> FileFacts:
    """Return facts about the live files of a version."""
    partitions = sorted(breakdown.partitions.items(), key=lambda each: (-each[1].size, repr(each[0])))
    return FileFacts(
        bins=_bins({number: sums.files for number, sums in breakdown.sizes.items() if number >= 0}),
        largest=breakdown.largest.files[:_NAMED],
        smallest=breakdown.smallest.files[:_NAMED],
        partitions=tuple(
            PartitionFiles(values=dict(values), num_files=sums.files, size_in_bytes=sums.size)
            for values, sums in partitions
        ),
        num_partitions=breakdown.num_partitions,
    )


def tombstone_facts(
    store: SnapshotStore,
    table: str,
    version: int | VersionManifest,
    breakdown: FileBreakdown,
    *,
    retention_ms: int,
    now_ms: int,
    has_vectors: bool,
) -> TombstoneFacts:
    """Return facts about the tombstones of a stored version, at the time `now_ms`.

    breakdown:   of that version.
    has_vectors: whether its files may have deletion vectors. A file then has a tombstone for each vector that it had,
                 also while it is live.
    """
    if breakdown.deletions is not None:
        facts = tombstone_facts_of(breakdown.deletions, retention_ms=retention_ms, now_ms=now_ms)
    else:
        facts = store.query(
            table,
            version,
            "tombstones",
            ("deletionTimestamp", "size"),
            driver=lambda rows: tombstone_facts_of_rows(rows, retention_ms=retention_ms, now_ms=now_ms),
            spark=lambda frame: tombstone_facts_of_frame(frame, retention_ms=retention_ms, now_ms=now_ms),
        )
    if not (has_vectors and facts.num_expired):
        return facts
    sizes = _expired_files(store, table, version, retention_ms=retention_ms, now_ms=now_ms)
    return replace(
        facts,
        num_expired=len(sizes),
        num_expired_without_size=sum(size is None for size in sizes.values()),
        expired_bytes=sum(size or 0 for size in sizes.values()),
    )


def may_have_vectors(state: SnapshotState) -> bool:
    """Return whether files of a version may have deletion vectors, or tombstones may because files had.

    After the feature `deletionVectors` is dropped, `checkpointProtection` protects the history that has vectors.
    Source: PROTOCOL.md, Checkpoint Protection.
    """
    features = frozenset[str]() if state.protocol is None else state.protocol.features
    properties = {} if state.metadata is None else state.metadata.configuration
    return not _WITH_VECTORS.isdisjoint(features) or "delta.enableDeletionVectors" in properties


def _expired_files(
    store: SnapshotStore, table: str, version: int | VersionManifest, *, retention_ms: int, now_ms: int
) -> dict[str, int | None]:
    """Return key (of the path) and size of files in expired tombstones only. Needs a pass over a version's paths."""
    manifest = store.manifests(table, [version])[version] if isinstance(version, int) else version
    key = path_key_sql("path", manifest.log_path)

    def keyed(rows: pa.Table) -> pa.Table:
        keys = path_keys(rows["path"].combine_chunks(), manifest.log_path)
        return rows.drop_columns("path").append_column("key", keys)

    def of_rows(rows: pa.Table) -> pa.Table:
        found = keyed(rows).append_column("deleted", pc.fill_null(rows["deletionTimestamp"], 0))
        found = found.group_by("key").aggregate([("deleted", "max"), ("size", "max")])
        return found.filter(pc.less_equal(found["deleted_max"], now_ms - retention_ms)).select(["key", "size_max"])

    def of_frame(frame: DataFrame) -> pa.Table:
        expires = F.coalesce(_expires_sql(retention_ms), F.lit(_MOST))
        by_key = frame.groupBy(F.expr(key).alias("by"))  # a session may omit this column
        found = by_key.agg(
            F.max(F.expr(key)).alias("key"), F.max(expires).alias("expires"), F.max("size").alias("size_max")
        )
        return found.where(F.col("expires") <= now_ms).select("key", "size_max").toArrow()

    columns = ("path", "deletionTimestamp", "size")
    expired = store.query(table, version, "tombstones", columns, driver=of_rows, spark=of_frame)

    def live_among(frame: DataFrame) -> pa.Table:
        keys = arrow_rows(frame.sparkSession, expired.select(["key"]))
        return frame.selectExpr(f"{key} as key").join(F.broadcast(keys), "key", "left_semi").toArrow()

    live = store.query(table, version, "all_files", ("path",), driver=keyed, spark=live_among)
    gone = expired.filter(pc.invert(pc.is_in(expired["key"], pa.array(live["key"].to_pylist(), pa.string()))))
    return dict(zip(gone["key"].to_pylist(), gone["size_max"].to_pylist(), strict=True))


def tombstone_facts_of(deletions: TombstoneTimes, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    """Return facts about the tombstones of a version from their sums by time."""
    rows, most = deletions.rows, _MOST - retention_ms  # a later time plus the retention is no time
    expires = pc.min_max(rows.filter(pc.less_equal(rows["deleted_at"], most))["deleted_at"]).as_py()
    expired = rows.filter(pc.less_equal(rows["deleted_at"], min(now_ms, _MOST) - retention_ms))

    def total(of: pa.Table, name: str) -> int:
        return int(pc.sum(of[name]).as_py() or 0)

    return TombstoneFacts(
        num_files=total(rows, "files"),
        size_in_bytes=total(rows, "size"),
        num_without_size=total(rows, "without_size"),
        first_expires_ms=None if expires["min"] is None else expires["min"] + retention_ms,
        last_expires_ms=None if expires["max"] is None else expires["max"] + retention_ms,
        num_expired=total(expired, "files"),
        num_expired_without_size=total(expired, "without_size"),
        expired_bytes=total(expired, "size"),
    )


def tombstone_facts_of_rows(tombstones: pa.Table, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    """Return facts about tombstones with any number of times, in the driver. tombstones: deletionTimestamp, size."""
    size = tombstones["size"]
    columns = {
        "deleted_at": pc.fill_null(tombstones["deletionTimestamp"], 0),
        "files": pa.repeat(1, len(tombstones)),
        "size": pc.fill_null(size, 0),
        "without_size": pc.is_null(size),
    }
    rows = pa.table(columns).cast(TombstoneTimes.ROWS)
    return tombstone_facts_of(TombstoneTimes(rows), retention_ms=retention_ms, now_ms=now_ms)


def tombstone_facts_of_frame(tombstones: DataFrame, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    """Return facts about tombstones with any number of times, on Spark. tombstones: deletionTimestamp, size."""
    expires = _expires_sql(retention_ms)
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
    )


def _expires_sql(retention_ms: int) -> Column:
    """Return when a tombstone expires; null: never, because the sum overflows."""
    retention = F.lit(retention_ms).cast("long")  # Sail adds only numbers of one type
    return F.try_add(F.coalesce("deletionTimestamp", F.lit(0)), retention)


def _sum_of(sizes: Column) -> Column:
    """Return the exact sum as a decimal, 0 for no rows: a sum of sizes may exceed 64 bits."""
    return F.coalesce(F.sum(sizes.cast("decimal(38, 0)")), F.lit(0))


def _bins(counts: Mapping[int, int]) -> tuple[SizeBin, ...]:
    """Return the number of files per bin. Four bins double the size, so that bins can be merged to fit a picture."""
    if not counts:
        return ()
    bounds = ((number, *FileBreakdown.bounds_of_bin(number)) for number in range(min(counts), max(counts) + 1))
    return tuple(SizeBin(start=start, end=end, count=counts.get(number, 0)) for number, start, end in bounds)
