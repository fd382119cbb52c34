"""The history of files starts at the first version that can be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_core import DeltaLog
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS = {
    0: [protocol(), metadata(), add("a")],
    1: [add("b")],
    2: [add("c")],
    3: [remove("a")],
}


@pytest.mark.parametrize(
    ("checkpoints", "damaged", "lost", "expected"),
    [
        ((), (), (), ({"a": 0, "b": 1, "c": 2}, 4)),
        ((0,), (), (0,), ({"a": None, "b": 1, "c": 2}, 3)),
        ((1,), (), (0, 1), ({"a": None, "b": None, "c": 2}, 2)),
        ((1, 2), (1,), (0, 1), ({"a": None, "b": None, "c": None}, 1)),
        ((1, 3), (1,), (0, 1), ({"b": None, "c": None}, 0)),
    ],
    ids=["empty", "a checkpoint of version 0", "first", "the first is damaged", "only the version itself"],
)
def test_history_starts_at_the_first_version_that_can_be_read(
    spark: SparkSession,
    tmp_path: Path,
    checkpoints: tuple[int, ...],
    damaged: tuple[int, ...],
    lost: tuple[int, ...],
    expected: tuple[dict[str, int | None], int],
) -> None:
    log = write_log(tmp_path, COMMITS)
    for version in checkpoints:
        actions = [add(name) for name in "abc"[: version + 1] if not (name == "a" and version == 3)]
        for file in write_checkpoint(log, version, "classic", [protocol(), metadata(), *actions]):
            if version in damaged:
                file.write_bytes(b"damaged")
    for version in lost:
        (log / commit_file(version)).unlink()
    tables, (added, count) = DeltaLog.for_table(spark, tmp_path).snapshot.tables, expected
    assert {row.path: row.added_version for row in tables.entries.collect()} == added
    history = tables._version.file_history()
    assert (0 if history.events is None else history.events.count()) == count
