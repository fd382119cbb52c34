"""Checkpoints with several writers, writers that are killed, logs that change, and storage that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.errors import LogChangedError, StorageError
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.snapshot.checkpoints import checkpoint_writer
from deltasnap_core.snapshot.checkpoints.checkpoint_writer import CheckpointWriter
from deltasnap_core.storage.writable_files import WritableFiles
from tests.builders import add, write_log
from tests.checkpointing import cut_to_checkpoint, seen_by_deltalake
from tests.core.snapshot.checkpoints.checkpoint_writer_builders import CLASSIC, LAST, log_of, make_table, names, state
from tests.killing import KilledError, MortalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Right after each change of the storage; before each one too, and with many sidecars, if all are requested.
MOMENTS = (False, True) if os.environ.get("DELTASNAP_ALL_CHECKPOINTS") else (True,)


def test_log_that_was_replaced_in_the_meantime_gets_no_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_table(tmp_path)
    write = write_parquet

    def replaced(*arguments: Any) -> None:
        write(*arguments)
        write_log(tmp_path, {2: [add("another")]})

    monkeypatch.setattr(checkpoint_writer, "write_parquet", replaced)
    with pytest.raises(LogChangedError):
        log_of(spark, log).checkpoint()
    assert CLASSIC not in names(log)


class Refusing(WritableFiles):
    """A storage that rejects the top-level file of a checkpoint."""

    def write(self, path: str, content: bytes) -> None:
        if path.endswith("top-level.json"):
            raise StorageError(path=path, reason="refused")
        super().write(path, content)


def test_sidecars_of_a_failed_checkpoint_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, configuration={"delta.checkpointPolicy": "v2"})
    before = names(log)
    with pytest.raises(StorageError, match="refused"):
        writer(spark, log, Refusing(f"file://{log}")).write()
    assert names(log) == before


def writer(spark: SparkSession, log: Path, storage: WritableFiles) -> CheckpointWriter:
    delta_log = log_of(spark, log)
    snapshot = delta_log.update()
    read = snapshot.log_segment.deltas
    return CheckpointWriter(context=delta_log.context, storage=storage, snapshot=snapshot, read=read)


def kill_everywhere(spark: SparkSession, tmp_path: Path, policy: str) -> tuple[int, int]:
    """Kill a writer before and after each of its changes. Return the number of kills, and of checkpoints left."""
    kills = left = 0
    for after in MOMENTS:
        for steps in range(100):
            table = tmp_path / f"{policy} {after} {steps}"
            log = make_table(table, configuration={"delta.checkpointPolicy": policy})
            before = state(spark, log)
            files = MortalFiles(f"file://{log}", steps=steps, after=after)
            try:
                writer(spark, log, files).write()
            except KilledError:
                kills += 1
            assert state(spark, log) == before
            seen_by_deltalake(table, ["app"])
            left += bool(log_of(spark, log).update().log_segment.checkpoint_provider.version == LAST)
            if not files.is_dead:
                break
            assert log_of(spark, log).checkpoint().version == LAST  # the next one succeeds
            cut_to_checkpoint(log, LAST)
            assert state(spark, log) == before
    return kills, left


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_killed_writer_leaves_readable_table(
    policy: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_writer, "ACTIONS_A_SIDECAR", 4 if len(MOMENTS) > 1 else 50)
    kills, left = kill_everywhere(spark, tmp_path, policy)
    print(f"{policy}: {kills} kills, {left} of them after the checkpoint was in place")
    assert kills >= 6 * len(MOMENTS)
    assert 0 < left < kills


class Racing(WritableFiles):
    """Files of a writer that another one overtakes right before it puts its checkpoint in place."""

    other: Callable[[], Any]

    def move_new(self, source: str, target: str) -> bool:
        if "_sidecars" not in target:
            self.other()
        return super().move_new(source, target)


@pytest.mark.parametrize("policy", [pytest.param("classic", marks=pytest.mark.thorough), "v2"])
def test_one_of_two_writers_wins(policy: str, spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, configuration={"delta.checkpointPolicy": policy})
    before = state(spark, log)
    files = Racing(f"file://{log}")
    results = []
    first = writer(spark, log, files)
    files.other = lambda: results.append(writer(spark, log, WritableFiles(f"file://{log}")).write())
    lost = first.write()
    assert [won.is_new for won in results] == [True]
    assert (lost.is_new, lost.version) == (False, LAST)
    assert [file.name for file in lost.files] == [results[0].files[0].name]
    kept = [name for name in names(log) if "checkpoint" in name or "_sidecars" in name]
    assert len(kept) == (2 if policy == "classic" else 3)  # with the hint and the winner's sidecar
    cut_to_checkpoint(log, LAST)
    assert state(spark, log) == before


def test_existing_broken_file_of_the_name_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path)
    (log / CLASSIC).touch()
    with pytest.raises(StorageError, match="expected no file or a complete checkpoint"):
        log_of(spark, log).checkpoint()
    assert (log / CLASSIC).read_bytes() == b""


def test_unwritable_log_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    log = make_table(tmp_path)
    log.chmod(0o500)
    try:
        with pytest.raises(StorageError):
            log_of(spark, log).checkpoint()
    finally:
        log.chmod(0o700)
