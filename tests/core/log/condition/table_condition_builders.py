"""Builders for the tests of table condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltasnap_core import TableCondition, TableLog
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import Action, add, metadata, protocol, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint

FIRST: list[Action] = [protocol(), metadata()]


def make_log(table: Path, last: int, *, checkpoint: int | None = None, style: CheckpointStyle = "classic") -> Path:
    log = write_log(table, {v: [*(FIRST if v == 0 else []), add(f"f{v}.parquet")] for v in range(last + 1)})
    if checkpoint is not None:
        checkpointed(log, checkpoint, style)
    return log


def checkpointed(log: Path, version: int, style: CheckpointStyle = "classic") -> tuple[Path, ...]:
    """Write a checkpoint of a version of the log of `make_log`."""
    return tuple(write_checkpoint(log, version, style, [*FIRST, *(add(f"f{v}.parquet") for v in range(version + 1))]))


def lose(log: Path, *versions: int) -> None:
    """Delete commits."""
    for version in versions:
        (log / commit_file(version)).unlink()


def condition(table: Path, **options: Any) -> TableCondition:
    return TableLog.for_path(table).condition(**options)
