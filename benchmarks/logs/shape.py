"""LogShape: what a made log looks like. The same shape gives the same bytes, whenever and wherever it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

EPOCH_MS = 1_780_000_000_000
"""When the base version of every log was committed, ms since the epoch; each commit comes a second after the last."""

_FORMAT = 2  # part of a log's name: count it up when the bytes of a shape change


class CheckpointKind(StrEnum):
    """What the base version of a log is: a commit (NONE) or a checkpoint."""

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
    """Who wrote the checkpoint of a log."""

    OURS = "ours"
    DELTALAKE = "deltalake"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogShape:
    """A base version of `files` live files and `tombstones`, then `commits` of `actions` each: half adds, half removes.

    The base version is a checkpoint at version 10, or without one the commit of version 0.
    parts:             of a multi-part checkpoint, or sidecars of a V2 one.
    partition_columns: how many; up to three are in the paths, as Hive has them.
    stats_columns:     how many columns have statistics.
    parsed_stats:      the checkpoint has `stats_parsed` in place of `stats`.
    row_groups:        into how many row groups the live files of each Parquet file are cut; 0: one for 131,072 files.
    writer:            who wrote the checkpoint: we, as the rest, or a peer in its own way, from ours.
    checksums:         each version has a `.crc` file.

    Every file of the table has a number, ascending in the order of being added; tombstones of the base come last.
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
        """A name that no other shape has, for a folder."""
        values = (f"{field.name}-{getattr(self, field.name)}" for field in fields(self))
        return "_".join([f"format-{_FORMAT}", *values])

    @property
    def base_version(self) -> int:
        """The version that the commits come after."""
        return 0 if self.checkpoint is CheckpointKind.NONE else 10

    @property
    def last_version(self) -> int:
        """The version of the last commit."""
        return self.base_version + self.commits

    @property
    def removes(self) -> int:
        """How many files a commit removes."""
        return self.actions // 2

    @property
    def adds(self) -> int:
        """How many files a commit adds."""
        return self.actions - self.removes

    @property
    def live_files(self) -> int:
        """How many files are live at the last version."""
        return self.files + self.commits * (self.adds - self.removes)

    def added(self, first: int, last: int) -> NDArray[np.int64]:
        """The files that the commits first to last (counted from 0) add, in order."""
        return np.arange(self.files + first * self.adds, self.files + (last + 1) * self.adds, dtype=np.int64)

    def removed(self, first: int, last: int) -> NDArray[np.int64]:
        """The files that the commits first to last (counted from 0) remove, in order: of the base, all over it, while
        it has any; then what was added first."""
        order = np.arange(first * self.removes, (last + 1) * self.removes, dtype=np.int64)
        return np.where(order < self.files, order * self._stride % max(self.files, 1), order)

    @property
    def buried(self) -> NDArray[np.int64]:
        """The files that the tombstones of the base are of."""
        first = self.files + self.commits * self.adds
        return np.arange(first, first + self.tombstones, dtype=np.int64)

    @property
    def _stride(self) -> int:
        """A step that leads through all files of the base, far from one to the next."""
        stride = int(self.files * 0.618) | 1
        while math.gcd(stride, self.files) != 1:
            stride += 2
        return stride
