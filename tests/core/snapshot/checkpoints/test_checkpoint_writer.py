"""Writing checkpoints: their content, rejected tables, and killed or concurrent writers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from deltasnap_core import CorruptLogError, DeltaLog, DeltaTableNotFoundError, TableLog, WrittenCheckpoint
from deltasnap_core.errors import (
    CheckpointMismatchError,
    ProtectedVersionError,
    SparkRequiredError,
    UnsupportedWriterError,
)
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.snapshot.checkpoints import checkpoint_writer
from tests.builders import add, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.checkpointing import (
    by_oracle,
    checkpoint_actions,
    commits_of,
    cut_to_checkpoint,
    seen_by_deltalake,
    state_of_checkpoint,
)
from tests.conftest import FixedClock
from tests.core.snapshot.checkpoints.checkpoint_writer_builders import CLASSIC, LAST, log_of, make_table, names, state
from tests.thorough import one_in
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

V2 = {"delta.checkpointPolicy": "v2"}


def assert_hint_names(written: WrittenCheckpoint, log: Path) -> None:
    found = LastCheckpointInfo.parse((log / "_last_checkpoint").read_bytes())
    assert found.checksum is not None
    assert (found.version, found.size, found.size_in_bytes) == (LAST, written.num_of_actions, written.size_in_bytes)
    assert found.num_of_add_files == written.num_of_add_files
    top_level = (log / written.files[0].name).stat()
    assert found.v2_checkpoint == (
        None
        if written.kind == "classic"
        else {
            "path": written.files[0].name,
            "sizeInBytes": top_level.st_size,
            "modificationTime": int(top_level.st_mtime * 1000),
        }
    )
    assert not (log / "._last_checkpoint.crc").exists()


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_state_is_same_without_commits(
    policy: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_writer, "ACTIONS_A_SIDECAR", 8)
    log = make_table(tmp_path, configuration={"delta.checkpointPolicy": policy})
    before, seen = state(spark, log), seen_by_deltalake(tmp_path, ["app", "old"])
    commits = commits_of(log, LAST)
    (log / "._last_checkpoint.crc").write_bytes(b"of an earlier hint")
    written = log_of(spark, log, now_ms=0).checkpoint()
    assert (written.is_new, written.is_hint_written) == (True, True)
    assert_hint_names(written, log)
    assert (written.version, written.kind) == (LAST, "classic" if policy == "classic" else "uuid")
    assert len(written.files) == (1 if policy == "classic" else 4)
    cut_to_checkpoint(log, LAST)
    assert state(spark, log) == before
    assert seen_by_deltalake(tmp_path, ["app", "old"]) == seen
    assert commits is not None
    actions = checkpoint_actions(log, written.files[0].name)
    assert state_of_checkpoint(actions) == by_oracle(commits)
    assert len(actions) == written.num_of_actions


def test_expired_actions_and_removed_domains_are_omitted(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, configuration={"delta.setTransactionRetentionDuration": "interval 1 day"})
    log_of(spark, log).checkpoint()
    actions = checkpoint_actions(log, CLASSIC)
    assert sorted(action["remove"]["path"] for action in actions if "remove" in action) == ["f%203", "f%205"]
    assert [action["txn"]["appId"] for action in actions if "txn" in action] == ["app"]
    assert [action["domainMetadata"]["domain"] for action in actions if "domainMetadata" in action] == ["kept"]
    assert {action[kind]["dataChange"] for action in actions for kind in ("add", "remove") if kind in action} == {False}


def test_hint_to_newer_checkpoint_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    log, before = make_table(tmp_path), b'{"version":3,"size":2}'
    write_checkpoint(log, LAST, "classic", [protocol(), metadata()])
    (log / "_last_checkpoint").write_bytes(before)
    written = log_of(spark, log).checkpoint(version=1)
    assert (written.is_new, written.version, written.is_hint_written) == (True, 1, False)
    assert (log / "_last_checkpoint").read_bytes() == before
    (log / "_last_checkpoint").unlink()  # the listing also shows the newer one
    assert not log_of(spark, log).checkpoint(version=2).is_hint_written
    assert not (log / "_last_checkpoint").exists()


def test_protected_version_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    before = {"delta.requireCheckpointProtectionBeforeVersion": "3"}
    log = make_table(tmp_path, configuration=before, of=protocol(1, 7, writerFeatures=["checkpointProtection"]))
    with pytest.raises(ProtectedVersionError, match="is 3"):
        log_of(spark, log).checkpoint(version=2)
    write_checkpoint(log, LAST, "classic", [protocol(), metadata()])
    assert log_of(spark, log).checkpoint().version == LAST


def test_first_version_gets_a_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    written = log_of(spark, log).checkpoint()
    assert (written.version, written.is_new, written.num_of_add_files) == (0, True, 1)


def test_folder_without_log_is_not_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeltaTableNotFoundError):
        log_of(spark, tmp_path / "_delta_log").checkpoint()


def test_checkpoint_unlike_its_version_is_gone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_table(tmp_path)
    before, write = names(log), write_parquet

    def lossy(files: Any, rows: Any, *rest: Any) -> None:
        write(files, rows.where("add is null or add.path != 'f%207'"), *rest)

    monkeypatch.setattr(checkpoint_writer, "write_parquet", lossy)
    with pytest.raises(CheckpointMismatchError, match=r"num_of_files: expected 18, found 17.*digest") as raised:
        log_of(spark, log).checkpoint()
    assert len(raised.value.differences) > 1
    assert names(log) == before


@pytest.mark.parametrize("policy", one_in(2, ["v2", "classic"]))
def test_one_changed_field_is_a_difference(
    policy: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_table(tmp_path, configuration={"delta.checkpointPolicy": policy})
    before, write = names(log), write_parquet

    def other(files: Any, rows: Any, *rest: Any) -> None:
        from pyspark.sql import functions as F

        changed = F.col("add").withField("baseRowId", F.coalesce("add.baseRowId", "add.size"))
        rows = rows.withColumn("add", F.when(F.col("add.path").isNotNull(), changed))
        write(files, rows.coalesce(1), *rest)  # otherwise Sail writes a file for each core

    monkeypatch.setattr(checkpoint_writer, "write_parquet", other)
    with pytest.raises(CheckpointMismatchError, match="digest of the files"):
        log_of(spark, log).checkpoint()
    assert names(log) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deletedFileRetentionDuration", "INTERVAL '30' DAYS"),
        ("setTransactionRetentionDuration", "1 month"),
        ("requireCheckpointProtectionBeforeVersion", "all"),
    ],
)
def test_invalid_property_of_writers_is_an_error(name: str, value: str, spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, configuration={f"delta.{name}": value})
    before = names(log)
    with pytest.raises(CorruptLogError, match=f"delta.{name}="):
        log_of(spark, log).checkpoint()
    assert names(log) == before


@pytest.mark.spark
def test_checkpoint_is_one_file_regardless_of_session_limits(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path)
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "3")
    try:
        assert log_of(spark, log).checkpoint().is_new
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert CLASSIC in names(log)


@pytest.mark.spark
@pytest.mark.parametrize("policy", one_in(2, ["v2", "classic"]))
def test_s3_table_gets_checkpoint(policy: str, spark: SparkSession, tmp_path: Path, s3_options: dict[str, Any]) -> None:
    import fsspec

    log = make_table(tmp_path / "t", configuration={"delta.checkpointPolicy": policy})
    s3 = fsspec.filesystem("s3", **s3_options)
    s3.put(str(log), f"lake/checkpointed-{policy}/_delta_log", recursive=True)
    url = f"s3://lake/checkpointed-{policy}"
    DeltaLog.clear_cache()
    delta_log = DeltaLog.for_table(spark, url, storage_options=s3_options, clock=FixedClock())
    before = delta_log.update().computed_state
    written = delta_log.checkpoint()
    assert (written.is_new, written.is_hint_written) == (True, True)
    listed = s3.find(f"lake/checkpointed-{policy}")
    assert not [name for name in listed if ".tmp" in name]
    s3.rm([f"lake/checkpointed-{policy}/_delta_log/{version:020d}.json" for version in range(LAST + 1)])
    DeltaLog.clear_cache()
    read = DeltaLog.for_table(spark, url, storage_options=s3_options, clock=FixedClock()).update()
    assert read.computed_state == before


@pytest.mark.spark
def test_deltalake_continues_a_table_with_our_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    write_deltalake(tmp_path, pa.table({"id": [3]}), mode="append")
    log = tmp_path / "_delta_log"
    assert log_of(spark, log).checkpoint().is_new
    (log / file_names.commit_file(0)).unlink()
    write_deltalake(tmp_path, pa.table({"id": [4]}), mode="append")
    table = DeltaTable(tmp_path)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 4]
    table.create_checkpoint()
    assert log_of(spark, log).update().computed_state.num_of_files == 3


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_checkpoint_of_a_later_version_does_not_count_as_one_of_the_version(tmp_path: Path) -> None:
    write_checkpoint(make_table(tmp_path), LAST, "classic", [protocol(), metadata()])
    log = log_without_spark(TableLog.for_path(tmp_path))
    assert not log.checkpoint(LAST).is_new
    with pytest.raises(SparkRequiredError):  # it is to be written
        log.checkpoint(LAST - 1)


def test_version_with_checkpoint_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path)
    write_checkpoint(log, LAST, "multipart", [protocol(), metadata()])
    before = {name: (log / name).read_bytes() for name in names(log)}
    written = log_of(spark, log).checkpoint()
    assert written.to_json() == {
        "version": LAST,
        "is_new": False,
        "kind": "multipart",
        "files": (files := [name for name in before if "checkpoint" in name]),
        "size_in_bytes": sum(len(before[name]) for name in files),
        "num_of_actions": None,
        "num_of_add_files": None,
        "is_hint_written": False,
    }
    assert {name: (log / name).read_bytes() for name in names(log)} == before


@pytest.mark.parametrize("version", [None, 1])
def test_unknown_writer_features_are_rejected_by_name(version: int | None, spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path)
    later = protocol(1, 7, writerFeatures=["appendOnly", "strangeFeature", "catalogManaged"])
    write_log(tmp_path, {LAST + 1: [later]})
    before = names(log)
    with pytest.raises(UnsupportedWriterError, match="catalogManaged, strangeFeature") as raised:
        log_of(spark, log).checkpoint(version)
    assert (raised.value.features, raised.value.version) == (("catalogManaged", "strangeFeature"), LAST + 1)
    assert names(log) == before


def test_wrong_checksum_does_not_allow_what_the_protocol_forbids(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, of=protocol(1, 8))
    counts = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    (log / file_names.checksum_file(LAST)).write_text(
        json.dumps({**counts, **protocol(), "metadata": metadata()["metaData"]})
    )
    with pytest.raises(UnsupportedWriterError, match="writer version 8"):
        log_of(spark, log).checkpoint()


def test_unknown_writer_version_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, of=protocol(1, 8))
    with pytest.raises(UnsupportedWriterError, match="writer version 8"):
        log_of(spark, log).checkpoint()


INVALID_SCHEMAS = {
    "no JSON": "{",
    "a field without a name": '{"type":"struct","fields":[{"type":"long"}]}',
    "a field that is a text": '{"type":"struct","fields":["a"]}',
    "fields that are a number": '{"type":"struct","fields":5}',
}


@pytest.mark.parametrize("schema", INVALID_SCHEMAS.values(), ids=INVALID_SCHEMAS)
def test_invalid_schema_is_an_error(schema: str, spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path, schemaString=schema)
    before = names(log)
    with pytest.raises(CorruptLogError, match=r"metaData\.schemaString"):
        log_of(spark, log).checkpoint()
    assert names(log) == before
