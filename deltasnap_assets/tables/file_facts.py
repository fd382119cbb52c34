"""Facts about the files of one version (sizes, partitions, largest, smallest) and about its tombstones (expiry).

On a large version each needs a Spark job, so only the newest version of a run gets them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from deltasnap_assets.checks.facts import FileFacts, PartitionFiles, SizeBin, TombstoneFacts
from deltasnap_core import SnapshotStore, VersionManifest

MOST_PARTITIONS = 5_000

_BINS_OF_A_DOUBLING = 4
_NAMED = 5
_KNOWS_FEW = (4, 2)  # from this version of Spark on, `min_by` can return more than one value
_MOST = (1 << 63) - 1

_Values = tuple[tuple[str, str | None], ...]


def file_facts(store: SnapshotStore, table: str, version: int | VersionManifest) -> FileFacts:
    """Return facts about the live files of a stored version, with at most `MOST_PARTITIONS` partitions."""
    columns = ("path", "size", "partitionValues")
    return store.query(table, version, "all_files", columns, driver=facts_of_rows, spark=facts_of_frame)


def tombstone_facts(
    store: SnapshotStore, table: str, version: int | VersionManifest, *, retention_ms: int, now_ms: int
) -> TombstoneFacts:
    """Return facts about the tombstones of a stored version, at the time `now_ms`."""
    return store.query(
        table,
        version,
        "tombstones",
        ("deletionTimestamp", "size"),
        driver=lambda rows: tombstone_facts_of_rows(rows, retention_ms=retention_ms, now_ms=now_ms),
        spark=lambda frame: tombstone_facts_of_frame(frame, retention_ms=retention_ms, now_ms=now_ms),
    )


def facts_of_frame(all_files: DataFrame) -> FileFacts:
    """Return facts about live files, on Spark. all_files: path, size, partitionValues."""
    bin_of_size = F.floor(F.log2(F.greatest("size", F.lit(1))) * _BINS_OF_A_DOUBLING).cast("int")
    files = all_files.select(
        "path",
        "size",
        F.array_sort(F.map_entries("partitionValues")).alias("values"),
        F.when(F.col("size") >= 0, bin_of_size).alias("bin"),
    )
    # One pass over the files: each further pass costs about as much, even for a small query.
    groups = _grouped(files, "values", "bin").orderBy(F.desc("bytes")).limit(MOST_PARTITIONS + 1).collect()
    is_every_group = len(groups) <= MOST_PARTITIONS
    by_bin = groups if is_every_group else _grouped(files, "bin").collect()
    partitions = _partitions(
        (tuple((entry.key, entry.value) for entry in row["values"] or ()), row.files, row.bytes) for row in groups
    )
    return FileFacts(
        bins=_bins((row.bin, row.files) for row in by_bin),
        largest=_largest(_files(by_bin, "largest")),
        smallest=_smallest(_files(by_bin, "smallest")),
        partitions=partitions,
        num_partitions=len(partitions) if is_every_group else files.select("values").distinct().count(),
    )


def facts_of_rows(all_files: pa.Table) -> FileFacts:
    """Return facts about live files, in the driver. all_files: path, size, partitionValues."""
    live = all_files.to_pylist()
    named = [(file["path"], file["size"]) for file in live]
    partitions = _partitions((tuple(sorted(file["partitionValues"] or ())), 1, file["size"]) for file in live)
    return FileFacts(
        bins=_bins((_bin_of(size), 1) for _, size in named if size >= 0),
        largest=_largest(named),
        smallest=_smallest(named),
        partitions=partitions[:MOST_PARTITIONS],
        num_partitions=len(partitions),
    )


def tombstone_facts_of_frame(tombstones: DataFrame, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    expires = F.try_add(F.coalesce("deletionTimestamp", F.lit(0)), F.lit(retention_ms))  # null: overflow, never expires
    is_expired = expires <= F.lit(now_ms)
    row = tombstones.agg(
        F.count("*").alias("files"),
        _sum_of(F.col("size")).alias("bytes"),
        F.count_if(F.col("size").isNull()).alias("without_size"),
        F.min(expires).alias("first"),
        F.max(expires).alias("last"),
        F.count_if(is_expired).alias("expired"),
        _sum_of(F.when(is_expired, F.col("size"))).alias("expired_bytes"),
    ).collect()[0]
    return TombstoneFacts(
        num_files=row.files,
        size_in_bytes=row.bytes,
        num_without_size=row.without_size,
        first_expires_ms=row["first"],
        last_expires_ms=row["last"],
        num_expired=row.expired,
        expired_bytes=row.expired_bytes,
    )


def tombstone_facts_of_rows(tombstones: pa.Table, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    gone = [{**file, "expires": (file["deletionTimestamp"] or 0) + retention_ms} for file in tombstones.to_pylist()]
    expires = [file["expires"] for file in gone if file["expires"] <= _MOST]
    expired = [file for file in gone if file["expires"] <= min(now_ms, _MOST)]
    return TombstoneFacts(
        num_files=len(gone),
        size_in_bytes=_summed(file["size"] or 0 for file in gone),
        num_without_size=sum(file["size"] is None for file in gone),
        first_expires_ms=min(expires, default=None),
        last_expires_ms=max(expires, default=None),
        num_expired=len(expired),
        expired_bytes=_summed(file["size"] or 0 for file in expired),
    )


def _summed(sizes: Iterable[int]) -> int:
    """Return the sum; 0 if it does not fit a long, as in `_sum_of`."""
    total = sum(sizes)
    return total if abs(total) <= _MOST else 0


def _bin_of(size: int) -> int:
    return math.floor(math.log2(max(size, 1)) * _BINS_OF_A_DOUBLING)


def _largest(files: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(heapq.nsmallest(_NAMED, files, key=lambda file: (-file[1], file[0])))


def _smallest(files: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(heapq.nsmallest(_NAMED, files, key=lambda file: (file[1], file[0])))


def _sum_of(sizes: Column) -> Column:
    """Return the sum; 0 for no rows, and if it does not fit a long: bad values in a log must not fail the run."""
    return F.coalesce(F.try_sum(sizes), F.lit(0))


def _grouped(files: DataFrame, *columns: str) -> DataFrame:
    """Group files by columns: count, sum, and the few largest and smallest files of each group."""
    is_recent = tuple(int(part) for part in files.sparkSession.version.split(".")[:2]) >= _KNOWS_FEW
    few = _few if is_recent else _few_of_all
    return files.groupBy(*columns).agg(
        F.count("*").alias("files"),
        _sum_of(F.col("size")).alias("bytes"),
        few(F.struct(F.bitwise_not("size"), "path")).alias("largest"),
        few(F.struct("size", "path")).alias("smallest"),
    )


def _few(order: Column) -> Column:
    return F.call_function("min_by", F.struct("path", "size"), order, F.lit(_NAMED))


def _few_of_all(order: Column) -> Column:
    """Return the same for earlier versions of Spark. They collect all files of a group."""
    ordered = F.array_sort(F.collect_list(F.struct(order.alias("order"), F.struct("path", "size").alias("file"))))
    return F.slice(ordered, 1, _NAMED).getField("file")


def _files(groups: Iterable[Row], which: str) -> Iterator[tuple[str, int]]:
    return ((file["path"], file["size"]) for group in groups for file in group[which])


def _partitions(groups: Iterable[tuple[_Values, int, int]]) -> tuple[PartitionFiles, ...]:
    """Merge groups (values, files, bytes) of the same partition. Order: the largest partitions first."""
    sums: dict[_Values, tuple[int, int]] = {}
    for values, count, size in groups:
        files, total = sums.get(values, (0, 0))
        sums[values] = (files + count, total + size)
    return tuple(
        PartitionFiles(values=dict(values), num_files=files, size_in_bytes=_summed([size]))
        for values, (files, size) in sorted(sums.items(), key=lambda each: -each[1][1])
    )


def _bins(groups: Iterable[tuple[int | None, int]]) -> tuple[SizeBin, ...]:
    """Return the number of files per bin. Four bins double the size, so that bins can be merged to fit a picture."""
    counts: Counter[int] = Counter()
    for number, files in groups:
        if number is not None:
            counts[number] += files
    if not counts:
        return ()
    return tuple(
        SizeBin(
            start=2 ** (number / _BINS_OF_A_DOUBLING),
            end=2 ** ((number + 1) / _BINS_OF_A_DOUBLING),
            count=counts[number],
        )
        for number in range(min(counts), max(counts) + 1)
    )
