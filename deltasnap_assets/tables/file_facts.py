"""What the files of one version are like: sizes, partitions, largest and smallest; and of its tombstones, when they go.

A few aggregations on Spark, so it is asked for the newest version of a run only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deltasnap_assets.tables.pictures import SizeBin

MOST_PARTITIONS = 5_000

_BINS_OF_A_DOUBLING = 4
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files of one partition of the table. values: by column, as the log has them."""

    values: Mapping[str, str | None]
    num_files: int
    size_in_bytes: int

    @property
    def label(self) -> str:
        """Return the partition as a path names it: `day=2026-03-02/country=de`."""
        return "/".join(f"{name}={'null' if value is None else value}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """Of the live files. largest, smallest: (path, bytes), a few of each. partitions: the largest first.

    is_every_partition: False where there are more than `MOST_PARTITIONS`.
    """

    bins: tuple[SizeBin, ...]
    largest: tuple[tuple[str, int], ...]
    smallest: tuple[tuple[str, int], ...]
    partitions: tuple[PartitionFiles, ...]
    is_every_partition: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneFacts:
    """Of the tombstones; sizes in bytes, of those that say one; times in ms since the epoch, None: there are none.

    expired: those whose retention is over by now: what VACUUM deletes, unless it has.
    """

    num_files: int
    size_in_bytes: int
    num_without_size: int
    first_expires_ms: int | None
    last_expires_ms: int | None
    num_expired: int
    expired_bytes: int


def file_facts(all_files: DataFrame) -> FileFacts:
    """Return what the live files of a version are like. all_files: with the columns of AddFile."""
    sizes = all_files.select("path", "size")
    by_partition = (
        all_files.select(F.array_sort(F.map_entries("partitionValues")).alias("values"), "size")
        .groupBy("values")
        .agg(F.count("*").alias("files"), _sum_of(F.col("size")).alias("bytes"))
    )
    partitions = by_partition.orderBy(F.desc("bytes")).limit(MOST_PARTITIONS + 1).collect()
    return FileFacts(
        bins=_bins(sizes),
        largest=_named(sizes.orderBy(F.desc("size"), "path")),
        smallest=_named(sizes.orderBy("size", "path")),
        partitions=tuple(
            PartitionFiles(
                values={entry.key: entry.value for entry in row["values"] or ()},
                num_files=row.files,
                size_in_bytes=row.bytes,
            )
            for row in partitions[:MOST_PARTITIONS]
        ),
        is_every_partition=len(partitions) <= MOST_PARTITIONS,
    )


def tombstone_facts(tombstones: DataFrame, *, retention_ms: int, now_ms: int) -> TombstoneFacts:
    """Return what the tombstones of a version are like. tombstones: with the columns of RemoveFile."""
    expires = F.try_add(F.coalesce("deletionTimestamp", F.lit(0)), F.lit(retention_ms))  # null: never, as it were
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


def _sum_of(sizes: Column) -> Column:
    """The sum, 0 of nothing and where it is beyond a long: what a log says must not fail what is stored of it."""
    return F.coalesce(F.try_sum(sizes), F.lit(0))


def _named(ordered: DataFrame) -> tuple[tuple[str, int], ...]:
    return tuple((row.path, row["size"]) for row in ordered.limit(_NAMED).collect())


def _bins(sizes: DataFrame) -> tuple[SizeBin, ...]:
    """Bins of which four double the size: fine enough to be made into some that fit."""
    exponent = F.floor(F.log2(F.greatest("size", F.lit(1))) * _BINS_OF_A_DOUBLING).cast("int")
    rows = sizes.where("size >= 0").groupBy(exponent.alias("bin")).agg(F.count("*").alias("files")).collect()
    counts = {row.bin: row.files for row in rows}
    if not counts:
        return ()
    return tuple(
        SizeBin(
            start=2 ** (number / _BINS_OF_A_DOUBLING),
            end=2 ** ((number + 1) / _BINS_OF_A_DOUBLING),
            count=counts.get(number, 0),
        )
        for number in range(min(counts), max(counts) + 1)
    )
