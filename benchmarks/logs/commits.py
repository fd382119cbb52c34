"""Writes the commits of a log, and their `.crc` files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.logs import columns, documents
from benchmarks.logs.columns import Numbers
from benchmarks.logs.shape import EPOCH_MS, CheckpointKind, LogShape

_ROWS_AT_A_TIME = 131_072


def write_base_commit(shape: LogShape, log: Path) -> None:
    """Write the commit of the base version: all its files, or only its commitInfo if a checkpoint has the files."""
    with (log / f"{shape.base_version:020d}.json").open("wb") as commit:
        commit.write(documents.line("commitInfo", documents.commit_info(EPOCH_MS)))
        if shape.checkpoint is CheckpointKind.NONE:
            commit.write(documents.line("protocol", documents.protocol(shape)))
            commit.write(documents.line("metaData", documents.metadata(shape)))
            for numbers in columns.blocks(np.arange(shape.files, dtype=np.int64), _ROWS_AT_A_TIME):
                commit.write(_adds(numbers, np.zeros_like(numbers), shape).buffer)
            for numbers in columns.blocks(shape.buried, _ROWS_AT_A_TIME):
                commit.write(_removes(numbers, np.zeros_like(numbers), shape).buffer)
    _settle(Path(commit.name), 0)


def write_commits(shape: LogShape, log: Path) -> None:
    """Write the commits after the base version."""
    if shape.actions > _ROWS_AT_A_TIME:
        for number in range(shape.commits):
            _write_large_commit(shape, log, number)
        return
    at_a_time = max(1, _ROWS_AT_A_TIME // max(shape.actions, 1))
    for first in range(0, shape.commits, at_a_time):
        last = min(first + at_a_time, shape.commits) - 1
        numbers = np.arange(first, last + 1)
        adds = _adds(shape.added(first, last), numbers.repeat(shape.adds) + 1, shape)
        removes = _removes(shape.removed(first, last), numbers.repeat(shape.removes) + 1, shape)
        for i, number in enumerate(range(first, last + 1)):
            with _commit(shape, log, number) as commit:
                commit.write(adds.part(i * shape.adds, shape.adds))
                commit.write(removes.part(i * shape.removes, shape.removes))
            _settle(Path(commit.name), number + 1)


def write_checksums(shape: LogShape, log: Path) -> None:
    """Write the `.crc` file of each version."""
    base = np.arange(shape.files, dtype=np.int64)
    files, size = shape.files, int(columns.sizes(base).sum())
    for number in range(-1, shape.commits):
        if number >= 0:
            files += shape.adds - shape.removes
            size += int(columns.sizes(shape.added(number, number)).sum())
            size -= int(columns.sizes(shape.removed(number, number)).sum())
        path = log / f"{shape.base_version + number + 1:020d}.crc"
        path.write_text(json.dumps(documents.checksum(shape, files, size)))
        _settle(path, number + 1)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a commit, each with its line break, in memory."""

    buffer: memoryview
    offsets: Numbers

    def part(self, first: int, count: int) -> memoryview:
        return self.buffer[self.offsets[first] : self.offsets[first + count]]


def _write_large_commit(shape: LogShape, log: Path, number: int) -> None:
    with _commit(shape, log, number) as commit:
        for numbers in columns.blocks(shape.added(number, number), _ROWS_AT_A_TIME):
            commit.write(_adds(numbers, np.full_like(numbers, number + 1), shape).buffer)
        for numbers in columns.blocks(shape.removed(number, number), _ROWS_AT_A_TIME):
            commit.write(_removes(numbers, np.full_like(numbers, number + 1), shape).buffer)
    _settle(Path(commit.name), number + 1)


def _commit(shape: LogShape, log: Path, number: int) -> BinaryIO:
    commit = (log / f"{shape.base_version + number + 1:020d}.json").open("wb")
    commit.write(documents.line("commitInfo", documents.commit_info(EPOCH_MS + (number + 1) * 1000)))
    return commit


def _settle(path: Path, seconds: int) -> None:
    """Set the modification time of a file to the time of its commit."""
    moment = EPOCH_MS // 1000 + seconds
    os.utime(path, (moment, moment))


def _adds(numbers: Numbers, seconds: Numbers, shape: LogShape) -> _Lines:
    return _lines(
        '{"add":{"path":"', columns.paths(numbers, shape.partition_columns),
        '","partitionValues":', _partition_values(numbers, shape),
        ',"size":', pa.array(columns.sizes(numbers)),
        ',"modificationTime":', pa.array(EPOCH_MS + seconds * 1000),
        ',"dataChange":true', *_statistics(numbers, shape), *_vectors(numbers, shape),
        "}}\n",
    )  # fmt: skip


def _removes(numbers: Numbers, seconds: Numbers, shape: LogShape) -> _Lines:
    return _lines(
        '{"remove":{"path":"', columns.paths(numbers, shape.partition_columns),
        '","deletionTimestamp":', pa.array(EPOCH_MS + seconds * 1000),
        ',"dataChange":true,"extendedFileMetadata":true,"partitionValues":',
        _partition_values(numbers, shape),
        ',"size":', pa.array(columns.sizes(numbers)),
        *_vectors(numbers, shape),
        "}}\n",
    )  # fmt: skip


def _partition_values(numbers: Numbers, shape: LogShape) -> pa.Array:
    return columns.partition_values_json(numbers, shape.partition_columns, mapped=shape.mapped)


def _statistics(numbers: Numbers, shape: LogShape) -> list[pa.Array | str]:
    if not shape.stats_columns:
        return []
    stats = columns.stats(numbers, shape.stats_columns, mapped=shape.mapped)
    return [',"stats":"', pc.replace_substring(stats, '"', '\\"'), '"']


def _vectors(numbers: Numbers, shape: LogShape) -> list[pa.Array]:
    every = shape.vectors_every
    return [columns.deletion_vectors_json(numbers, every)] if every else []


def _lines(*pieces: pa.Array | str) -> _Lines:
    texts = [piece if isinstance(piece, str) else pc.cast(piece, pa.large_string()) for piece in pieces]
    lines = pc.binary_join_element_wise(
        *(pa.scalar(t, pa.large_string()) if isinstance(t, str) else t for t in texts), pa.scalar("", pa.large_string())
    )
    _, offsets, data = lines.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return _Lines(memoryview(data or b"")[: ends[-1]], ends)
