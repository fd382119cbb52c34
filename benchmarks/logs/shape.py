"""LogShape: the shape of a generated log. The same shape always gives the same bytes, on any machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

EPOCH_MS = 1_780_000_000_000
"""The commit time of every base version, in ms since the epoch. Each later commit is one second after the last."""

_FORMAT = 2  # part of a log's name: increment it when the bytes of a shape change


class CheckpointKind(StrEnum):
    """The base version of a log: a commit (NONE) or a kind of checkpoint."""

    NONE = "none"
    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2_PARQUET = "v2-parquet"
    V2_JSON = "v2-json"

    @property
    def is_v2(self) -> bool:
        """Whether the table has the V2 checkpoint feature."""
        return self in (CheckpointKind.V2_PARQUET, CheckpointKind.V2_JSON)


class CheckpointWriter(StrEnum):
    """The writer of a log's checkpoint."""

    OURS = "ours"
    DELTALAKE = "deltalake"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogShape:
    """A base version of `files` live files and `tombstones`, then `commits` of `actions` each: half adds, half removes.

    The base version is a checkpoint at version 10, or without a checkpoint the commit of version 0.
    parts:             of a multi-part checkpoint, or sidecars of a V2 one.
    partition_columns: how many; up to three are in the paths, as in Hive.
    stats_columns:     how many columns have statistics; 0: no file has statistics, not even a number of rows.
    parsed_stats:      the checkpoint has `stats_parsed` instead of `stats`.
    row_groups:        the number of row groups for the live files of each Parquet file; 0: one per 131,072 files.
    writer:            who wrote the checkpoint: this package, or a peer that rewrote ours in its own way.
    mapped:            the columns are mapped by name: partition values and statistics have physical names.
    vectors_every:     one file in so many has a deletion vector; 0: none.
    checksums:         each version has a `.crc` file.

    Every file of the table has a number, ascending in the order of adds. Tombstones of the base version come last.
    """

    files: int = 1_000_000
    tombstones: int = 100_000
    commits: int = 100
    actions: int = 20
    checkpoint: CheckpointKind = CheckpointKind.CLASSIC
    parts: int = 1
    partition_columns: int = 1
    stats_columns: int = 4
    parsed_stats: bool = False
    row_groups: int = 0
    mapped: bool = False
    vectors_every: int = 0
    writer: CheckpointWriter = CheckpointWriter.OURS
    checksums: bool = False

    def __post_init__(self) -> None:
        if self.parts > 1 and self.checkpoint in (CheckpointKind.NONE, CheckpointKind.CLASSIC):
            raise ValueError(f"expected one part of a {self.checkpoint} checkpoint, found {self.parts}")
        if self.commits and self.files < self.removes:
            raise ValueError(f"expected at least {self.removes} files to remove some, found {self.files}")

    def __str__(self) -> str:
        text = f"{self.files:,} files, {self.commits:,} commits of {self.actions:,} actions"
        return text if self.checkpoint is CheckpointKind.CLASSIC else f"{text}, checkpoint {self.checkpoint}"

    @property
    def name(self) -> str:
        """A unique name of the shape, for a folder."""
        values = (f"{field.name}-{getattr(self, field.name)}" for field in fields(self))
        return "_".join([f"format-{_FORMAT}", *values])

    @property
    def base_version(self) -> int:
        """The version before the first generated commit."""
        return 0 if self.checkpoint is CheckpointKind.NONE else 10

    @property
    def last_version(self) -> int:
        """The version of the last commit."""
        return self.base_version + self.commits

    @property
    def removes(self) -> int:
        """The number of files that a commit removes."""
        return self.actions // 2

    @property
    def adds(self) -> int:
        """The number of files that a commit adds."""
        return self.actions - self.removes

    @property
    def live_files(self) -> int:
        """The number of live files at the last version."""
        return self.files + self.commits * (self.adds - self.removes)

    def added(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the files that the commits first to last (counted from 0) add, in order."""
        return np.arange(self.files + first * self.adds, self.files + (last + 1) * self.adds, dtype=np.int64)

    def removed(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the files that the commits first to last (counted from 0) remove, in order.

        First files from all over the base version; when none are left, added files in the order of their adds.
        """
        order = np.arange(first * self.removes, (last + 1) * self.removes, dtype=np.int64)
        return np.where(order < self.files, order * self._stride % max(self.files, 1), order)

    @property
    def buried(self) -> NDArray[np.int64]:
        """Return the files of the tombstones of the base version."""
        first = self.files + self.commits * self.adds
        return np.arange(first, first + self.tombstones, dtype=np.int64)

    @property
    def _stride(self) -> int:
        """A step that visits all files of the base version, with large distances between consecutive ones."""
        stride = int(self.files * 0.618) | 1
        while math.gcd(stride, self.files) != 1:
            stride += 2
        return stride
