"""Builders for the tests of table condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltasnap_core import (
    TableCondition,
    TableLog,
)
from tests.builders import (
    Action,
    add,
    metadata,
    protocol,
    write_log,
)
from tests.checkpoint_files import CheckpointStyle, write_checkpoint

FIRST: list[Action] = [protocol(), metadata()]


def make_log(table: Path, last: int, *, checkpoint: int | None = None, style: CheckpointStyle = "classic") -> Path:
    log = write_log(table, {v: [*(FIRST if v == 0 else []), add(f"f{v}.parquet")] for v in range(last + 1)})
    if checkpoint is not None:
        actions = [*FIRST, *(add(f"f{v}.parquet") for v in range(checkpoint + 1))]
        write_checkpoint(log, checkpoint, style, actions)
    return log


def condition(table: Path, **options: Any) -> TableCondition:
    return TableLog.for_path(table).condition(**options)
