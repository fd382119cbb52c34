"""Delta's session properties as defaults, and sessions whose settings would fail the SQL of deltasnap."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.errors import UnsupportedSettingError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.scan.tables.metadata_tables import NAMES
from deltasnap_core.snapshot.session_properties import staleness_limit_ms, with_session_defaults
from deltasnap_core.storage.urls import local_path
from tests.builders import TABLE_PATH, MemoryLogStore, add, metadata, protocol, remove, write_log
from tests.conftest import FixedClock

PREFIX = "spark.databricks.delta."


def session(**properties: str) -> Any:
    """Return a provider of a session with properties: `session(stalenessLimit="1h")`; `_` stands for a dot."""
    values = {PREFIX + name.replace("_", "."): value for name, value in properties.items()}
    conf: Any = SimpleNamespace(get=lambda name, default=None: values.get(name, default))
    return GivenSession(cast("Any", SimpleNamespace(conf=conf)))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1500", 1500),
        ("20ms", 20),
        ("2999us", 2),
        ("30s", 30_000),
        ("5m", 300_000),
        ("5min", 300_000),
        (" 1H ", 3_600_000),
        ("2d", 172_800_000),
    ],
)
def test_staleness_limit_is_a_spark_time_string(text: str, milliseconds: int) -> None:
    assert staleness_limit_ms(session(stalenessLimit=text)) == milliseconds


@pytest.mark.parametrize("text", ["", "-1s", "1 week", "1.5h", "soon"])
def test_invalid_staleness_limit_raises_an_error_that_names_the_property(text: str) -> None:
    with pytest.raises(ValueError, match=r"spark\.databricks\.delta\.stalenessLimit: expected a time"):
        staleness_limit_ms(session(stalenessLimit=text))


def test_options_default_to_the_session() -> None:
    assert with_session_defaults(session(snapshotPartitions="1"), SnapshotOptions()).snapshot_partitions == 1
    spark = session(stateReconstructionValidation_enabled="False", snapshotPartitions="7")
    resolved = with_session_defaults(spark, SnapshotOptions())
    assert (resolved.validate_state, resolved.snapshot_partitions) == (False, 7)
    resolved = with_session_defaults(spark, SnapshotOptions(validate_state=True, snapshot_partitions=2))
    assert (resolved.validate_state, resolved.snapshot_partitions) == (True, 2)


def test_session_without_properties_keeps_the_defaults_of_delta() -> None:
    for spark in (GivenSession(None), session()):
        resolved = with_session_defaults(spark, SnapshotOptions())
        assert (resolved.validate_state, resolved.snapshot_partitions) == (True, None)
        assert staleness_limit_ms(spark) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [("stateReconstructionValidation_enabled", "yes"), ("snapshotPartitions", "0"), ("snapshotPartitions", "many")],
)
def test_invalid_property_raises_an_error_that_names_it(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name.replace("_", r"\.")):
        with_session_defaults(session(**{name: text}), SnapshotOptions())


def test_table_opened_in_the_session_follows_its_properties() -> None:
    spark, now = session(stalenessLimit="1h"), iter([10**12, *[10**12 + 1000] * 9])
    log = DeltaLog.for_table(spark, TABLE_PATH, clock=lambda: next(now), store=MemoryLogStore())
    try:
        assert log.update().version == -1
        assert not log.is_snapshot_stale
    finally:
        DeltaLog.clear_cache()


if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

VECTOR = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0", "sizeInBytes": 9}


@pytest.fixture
def strict(spark: SparkSession) -> Iterator[SparkSession]:
    names = {
        "spark.sql.ansi.enforceReservedKeywords": "true",
        "spark.sql.columnNameOfCorruptRecord": "add",
        "spark.sql.retainGroupColumns": "false",
    }
    for name, value in names.items():
        spark.conf.set(name, value)
    yield spark
    for name in names:
        spark.conf.unset(name)


@pytest.mark.thorough
@pytest.mark.spark
def test_tables_are_read_stored_and_checkpointed_in_such_a_session(strict: SparkSession, tmp_path: Path) -> None:
    features = ["deletionVectors"]
    first = [protocol(3, 7, readerFeatures=features, writerFeatures=features), metadata(), add("a"), add("b")]
    table = tmp_path / "t"
    write_log(table, {0: first, 1: [remove("a"), add("a", deletionVector={**VECTOR, "cardinality": 2})], 2: [add("c")]})
    log = DeltaLog.for_table(strict, table, clock=FixedClock(), options=SnapshotOptions(engine="spark"))
    tables = log.snapshot.tables
    for name in NAMES:
        tables.create_view(name)
        assert strict.table(name).toArrow().num_rows >= 0
    assert tables.partitions.columns[:2] == ["partition", "files"]
    assert tables.vacuum_candidates(list_files=True).count() == 0
    store = SnapshotStore.open(strict, str(tmp_path / "store"))
    store.write_range("t", log, 0, 2)
    assert store.all_files("t", 2).count() == log.snapshot.scan("id > 1").files.count() == 3
    assert log.file_changes(0, 2).summary.added_files == 2
    assert log.checkpoint().is_new


@pytest.fixture
def regex_names(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    yield spark
    spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")


def described(name: str, kind: str = "long") -> dict[str, Any]:
    return metadata(schemaString=json.dumps({"type": "struct", "fields": [{"name": name, "type": kind}]}))


def test_column_that_is_a_regular_expression_there_is_an_error(regex_names: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t", {0: [protocol(), described("a-b"), add("f")]})
    log = DeltaLog.for_table(regex_names, tmp_path / "t")
    tables = log.snapshot.tables
    for read in (
        lambda: tables.files,
        lambda: tables.column_stats,
        lambda: log.snapshot.scan("`a-b` > 1"),
        lambda: log.snapshot.scan().to_df(),
        log.checkpoint,
    ):
        with pytest.raises(UnsupportedSettingError, match=r"quotedRegexColumnNames=true .* name 'a-b' as a regular"):
            read()
    assert log.snapshot.all_files.count() == log.snapshot.computed_state.num_of_files == 1


@pytest.mark.spark
def test_plain_column_names_are_read_with_regular_expressions(regex_names: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t", {0: [protocol(), described("a_b"), add("f", stats='{"numRecords":1}')]})
    log = DeltaLog.for_table(regex_names, tmp_path / "t")
    assert [row.records for row in log.snapshot.tables.files.collect()] == [1]
    assert log.snapshot.tables.column_stats.count() == log.snapshot.scan("`a_b` > 1").files.count() == 1
    assert log.checkpoint().is_new


OTHER_DATES = {
    "datetimeRebaseModeInWrite": "LEGACY",
    "int96RebaseModeInWrite": "EXCEPTION",
    "outputTimestampType": "TIMESTAMP_MILLIS",
}


def test_checkpoint_is_refused_if_the_session_writes_other_dates(spark: SparkSession, tmp_path: Path) -> None:
    settings = {name: f"spark.sql.parquet.{name}" for name in OTHER_DATES}
    first = [protocol(), described("d", "date"), add("f", stats='{"minValues":{"d":"1500-03-01"}}')]
    local = [described("t", "timestamp_ntz"), add("f", stats='{"minValues":{"t":"1500-03-01T00:00:00"}}')]
    features = protocol(3, 7, readerFeatures=["timestampNtz"], writerFeatures=["timestampNtz"])
    dated, unchanged = (
        DeltaLog.for_table(spark, write_log(tmp_path / n, {0: each}).parent)
        for n, each in {"dated": first, "unchanged": [features, *local]}.items()
    )
    before = {setting: spark.conf.get(setting) or "" for setting in settings.values()}
    try:
        for name, setting in settings.items():
            spark.conf.set(setting, OTHER_DATES[name])
            with pytest.raises(
                UnsupportedSettingError, match=f"{name}={OTHER_DATES[name]} .* that other readers misread"
            ):
                dated.checkpoint()
            spark.conf.set(setting, before[setting])
        for name, setting in settings.items():
            spark.conf.set(setting, OTHER_DATES[name])
        assert least_values(unchanged) == {"t": datetime(1500, 3, 1)}
    finally:
        for setting, kept in before.items():
            spark.conf.set(setting, kept)
    assert least_values(dated) == {"d": date(1500, 3, 1)}


def least_values(log: DeltaLog) -> dict[str, Any]:
    """Write a checkpoint, and return the minimum values of its only file."""
    (written,) = log.checkpoint().files
    (parsed,) = [row["stats_parsed"] for row in pq.read_table(local_path(written.path))["add"].to_pylist() if row]
    return dict(parsed["minValues"])


@pytest.mark.parametrize("name", ["${env:HOME}", "a ${spark.app.name}"])
def test_variable_in_a_column_name_is_never_replaced(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write_log(tmp_path / "t", {0: [protocol(), described(name), add("f", stats='{"numRecords":1}')]})
    tables = DeltaLog.for_table(spark, tmp_path / "t").snapshot.tables
    with pytest.raises(UnsupportedSettingError, match=r"variable\.substitute=true .* as a variable"):
        _ = tables.files
    setting = "spark.sql.variable.substitute"
    spark.conf.set(setting, "false")
    try:
        found = tables.files
        assert cast("StructType", found.schema["stats"].dataType).names == [name]
        assert [row.records for row in found.collect()] == [1]
    finally:
        spark.conf.unset(setting)
