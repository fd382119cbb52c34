"""Repairs of damaged logs: afterwards every reader reads the same files as before the damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from deltalake import DeltaTable

from deltasnap_core import DeltaLog, SnapshotStore, TableLog
from deltasnap_core.errors import LogChangedError
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, checkpoint_file, commit_file
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.scan.version import rows_in_arrow
from deltasnap_core.snapshot.checkpoints import checkpoint_writer
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store import repair
from deltasnap_core.store.repair import Repair
from tests.builders import add, write_log
from tests.checkpointing import by_oracle, commits_of, seen_by_deltalake
from tests.core.store.repair_builders import (
    DAMAGES,
    LATEST,
    MIDDLE,
    Damage,
    commits_of_table,
    copy_of,
    make_log,
    put_checkpoint,
)
from tests.killing import KilledError, MortalFiles
from tests.thorough import one_in
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the whole table, and a store with all its versions."""
    folder = tmp_path_factory.mktemp("original")
    make_log(folder / "table")
    store = SnapshotStore.open(spark, folder / "store")
    store.write_range("t", DeltaLog.for_table(spark, folder / "table"), 0, LATEST)
    return folder


@pytest.fixture
def log(original: Path, tmp_path: Path) -> Path:
    """The log of a copy of the table."""
    shutil.copytree(original / "store", tmp_path / "store")
    return copy_of(original / "table", tmp_path / "table")


def repaired(spark: SparkSession, log: Path) -> Repair:
    DeltaLog.clear_cache()
    store = SnapshotStore.open(spark, log.parent.parent / "store")
    return store.repair("t", DeltaLog.for_table(spark, log.parent), write=True)


def seen(log: Path) -> tuple[Any, ...]:
    """The latest version as deltalake and deltasnap read it. Without the paths of the table."""
    snapshot = log_without_spark(TableLog.for_path(log.parent)).update()
    rows = snapshot.versions.run(rows_in_arrow).drop_columns("dataChange").to_pylist()
    facts = (snapshot.version, snapshot.transactions, snapshot.domain_metadata, snapshot.metadata, snapshot.protocol)
    deltalake = seen_by_deltalake(log.parent, ["app"])
    deltalake["files"] = [uri.rpartition("/")[2] for uri in deltalake["files"]]
    return deltalake, sorted(map(str, rows)), facts


@pytest.mark.parametrize("damage", one_in(3, DAMAGES.values()), ids=DAMAGES)
def test_readers_see_the_files_from_before_the_damage(damage: Damage, spark: SparkSession, log: Path) -> None:
    before = seen(log)
    damage.do(log)
    damaged = {file.name: file.read_bytes() for file in log.iterdir() if file.name[0].isdigit()}
    found = repaired(spark, log)
    assert (found.version, found.is_written) == (damage.version, True)
    assert found.checkpoint is not None
    assert seen(log) == before
    assert json.loads((log / LAST_CHECKPOINT).read_text())["version"] == damage.version
    (log / LAST_CHECKPOINT).unlink()
    assert seen(log) == before
    assert by_oracle(commits_of(log, LATEST) or []) == by_oracle(commits_of_table())
    # Nothing is deleted: a renamed file has its content.
    assert bool(found.renamed) is damage.renames
    assert all((log / found.renamed.get(name, name)).read_bytes() == content for name, content in damaged.items())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["lost commit", "corrupt checkpoint of the latest version"])
def test_table_that_was_copied_to_s3_is_repaired_there(
    name: str, spark: SparkSession, log: Path, s3_options: dict[str, Any]
) -> None:
    before, damage = files_of(TableLog.for_path(log.parent)), DAMAGES[name]
    damage.do(log)
    s3, folder = fsspec.filesystem("s3", **s3_options), f"lake/repaired-{name.replace(' ', '-')}"
    s3.put(str(log), f"{folder}/_delta_log", recursive=True)
    damaged = {file: s3.cat(file) for file in s3.find(folder)}
    DeltaLog.clear_cache()
    store = SnapshotStore.open(spark, log.parent.parent / "store")
    found = store.repair("t", DeltaLog.for_table(spark, f"s3://{folder}", storage_options=s3_options), write=True)
    assert (found.version, found.is_written, bool(found.renamed)) == (damage.version, True, damage.renames)
    assert files_of(TableLog.for_path(f"s3://{folder}", s3_options)) == before
    s3.invalidate_cache()
    after = {file.rpartition("/")[2]: s3.cat(file) for file in s3.find(folder)}
    assert not [file for file in after if ".tmp" in file]
    for file, content in damaged.items():
        assert after[found.renamed.get(file.rpartition("/")[2], file.rpartition("/")[2])] == content or "_last_" in file


def files_of(log: TableLog) -> list[str]:
    """The live files of the latest version, as deltasnap reads them."""
    snapshot = log_without_spark(log).update()
    return sorted(snapshot.versions.run(rows_in_arrow)["path"].to_pylist())


def test_second_repair_has_nothing_to_write(spark: SparkSession, log: Path) -> None:
    DAMAGES["lost commit"].do(log)
    repaired(spark, log)
    before = sorted(file.name for file in log.rglob("*"))
    assert not repaired(spark, log).is_needed
    assert sorted(file.name for file in log.rglob("*")) == before


def test_wrong_hint_is_replaced_by_one_to_the_sound_checkpoint(spark: SparkSession, log: Path) -> None:
    put_checkpoint(log, MIDDLE, "multipart", clean=False)
    (log / LAST_CHECKPOINT).write_text(json.dumps({"version": 9, "size": 1}))
    found = repaired(spark, log)
    assert (found.version, found.has_hint, found.checkpoint) == (None, True, None)
    hint = json.loads((log / LAST_CHECKPOINT).read_text())
    assert (hint["version"], hint["parts"]) == (MIDDLE, 2)
    assert seen(log)[2][0] == LATEST


def test_checkpoint_before_a_later_sound_one_keeps_the_hint(spark: SparkSession, log: Path) -> None:
    put_checkpoint(log, 10, clean=False)
    DAMAGES["lost commit"].do(log)
    repaired(spark, log)
    assert (log / checkpoint_file(MIDDLE)).exists()
    assert json.loads((log / LAST_CHECKPOINT).read_text())["version"] == 10
    assert log_without_spark(TableLog.for_path(log.parent)).get_snapshot_at(8).num_of_files


class Interrupted(WritableFiles):
    """The files of a repair during which something else happens, right before a file is put in place."""

    other: Callable[[], object] = staticmethod(lambda: None)

    def move_new(self, source: str, target: str) -> bool:
        type(self).other()
        return super().move_new(source, target)


def test_other_writers_commit_during_and_after_a_repair(
    spark: SparkSession, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DAMAGES["lost commit"].do(log)
    monkeypatch.setattr(repair, "WritableFiles", Interrupted)
    monkeypatch.setattr(Interrupted, "other", lambda: write_log(log.parent, {LATEST + 1: [add("during")]}))
    assert repaired(spark, log).version == MIDDLE
    write_log(log.parent, {LATEST + 2: [add("after")]})
    deltalake, files, facts = seen(log)
    assert facts[0] == deltalake["version"] == LATEST + 2
    assert {path.rpartition("/")[2] for path in deltalake["files"]} >= {"during", "after"}
    assert len(files) == len(deltalake["files"])


def test_log_that_is_replaced_during_a_repair_gets_no_checkpoint(
    spark: SparkSession, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DAMAGES["lost commit"].do(log)

    def replaced(*arguments: Any) -> None:
        write_parquet(*arguments)
        write_log(log.parent, {MIDDLE: [add("another")]})

    monkeypatch.setattr(checkpoint_writer, "write_parquet", replaced)
    with pytest.raises(LogChangedError):
        repaired(spark, log)
    assert not (log / checkpoint_file(MIDDLE)).exists()


def test_log_that_is_replaced_at_the_last_moment_is_reported(
    spark: SparkSession, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DAMAGES["lost commit"].do(log)
    monkeypatch.setattr(repair, "WritableFiles", Interrupted)
    monkeypatch.setattr(Interrupted, "other", lambda: write_log(log.parent, {MIDDLE: [add("another")]}))
    with pytest.raises(LogChangedError, match=commit_file(MIDDLE)):
        repaired(spark, log)


KILLED = (
    "lost commit",
    "corrupt checkpoint after cleanup",
    "lost checkpoint after cleanup",
    "corrupt checkpoint of parts of the latest version",
)


def readable(log: Path) -> set[tuple[str, int]]:
    """The versions that deltasnap reads without the hint, and that deltalake reads."""
    found = {("deltasnap", version) for version in TableLog.for_path(log.parent).condition(first=0).loadable}
    for version in range(LATEST + 1):
        with suppress(Exception):
            found.add(("deltalake", DeltaTable(str(log.parent), version=version).version()))
    return found


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("name", KILLED)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_repair_leaves_the_table_at_least_as_readable(
    name: str, after: bool, spark: SparkSession, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(original / "store", tmp_path / "store")
    right, kills = seen(original / "table" / "_delta_log"), 0
    for steps in range(100):
        log = copy_of(original / "table", tmp_path / "table")
        DAMAGES[name].do(log)
        before = readable(log)
        monkeypatch.setattr(repair, "WritableFiles", partial(MortalFiles, steps=steps, after=after))
        before_kill = kills
        try:
            repaired(spark, log)
        except KilledError:
            kills += 1
        assert readable(log) >= before
        if (log / LAST_CHECKPOINT).exists():
            json.loads((log / LAST_CHECKPOINT).read_text())
        assert all(file.name.startswith((".tmp-", ".damaged-", "0", "_")) for file in log.iterdir())
        monkeypatch.setattr(repair, "WritableFiles", WritableFiles)
        repaired(spark, log)
        assert seen(log) == right
        shutil.rmtree(log.parent)
        if kills == before_kill:
            break
    print(f"{name}: {kills} kills")
    assert kills >= 5
