"""Versions of which no checkpoint is written. They are rejected before a session is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_core import (
    CorruptLogError,
    TableLog,
)
from deltasnap_core.errors import (
    SparkRequiredError,
    UnsupportedWriterError,
)
from deltasnap_core.protocol.log_files import file_names
from tests.builders import metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.snapshot.checkpoints.checkpoint_writer_builders import LAST, log_of, make_table, names
from tests.without_spark import log_without_spark

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
