"""Damage that only Spark detects, or rows with two actions: the correct result, or CorruptLogError with the file."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import CorruptLogError, DeltaLog, Snapshot, SnapshotOptions, SnapshotStore, TableLog
from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.engine import EngineUse
from deltasnap_core.support import SPARK_FAILURES
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, put_structs_of_nulls, write_checkpoint
from tests.conftest import FixedClock
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.core.scan.scan_builders import file, ids
from tests.core.snapshot.damage_builders import flip, keep_time
from tests.thorough import one_in
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILES = [add(f"f{number}", size=number, stats='{"numRecords":1}') for number in range(100)]
BYTES = sum(range(100))
LAST = 3
Damage = Callable[[Path], None]


def make_table(table: Path, *, style: CheckpointStyle = "classic", with_commits: bool = True) -> Path:
    """Write versions 0 to 3, a checkpoint at 2 with 100 files; return its file that contains them."""
    log = write_log(table, {0: [protocol(), metadata()], 1: FILES, 2: [], 3: [add("last", size=1)]})
    (file, *_) = write_checkpoint(log, 2, style, [protocol(), metadata(), *FILES])
    if not with_commits:
        for version in range(3):
            (log / file_names.commit_file(version)).unlink()
    sidecars = sorted((log / file_names.SIDECAR_FOLDER).glob("*")) if "sidecars" in style else []
    return sidecars[0] if sidecars else file


def flip_one(file: Path) -> None:
    """Flip one byte of the sizes, which still decode: only the checksum of the page detects it."""
    keep_time(
        file,
        lambda: pq.write_table(
            pq.read_table(file), file, compression="none", use_dictionary=False, write_page_checksum=True
        ),
    )
    metadata, content = pq.read_metadata(file), bytearray(file.read_bytes())
    columns = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    (sizes,) = [column for column in columns if column.path_in_schema == "add.size"]
    content[sizes.data_page_offset + sizes.total_compressed_size - 100] ^= 1
    keep_time(file, lambda: file.write_bytes(content))


def retyped(column: str, kind: pa.DataType) -> Damage:
    """Return a function that rewrites a file with a different type of a field of `add`."""

    def rewrite(file: Path) -> None:
        table = pq.read_table(file)
        index = table.schema.get_field_index("add")
        old = table.schema.field(index).type
        new = pa.struct([pa.field(f.name, kind if f.name == column else f.type) for f in old])
        rows = [None if row is None else {**row, column: None} for row in table.column(index).to_pylist()]
        keep_time(file, lambda: pq.write_table(table.set_column(index, "add", pa.array(rows, new)), file))

    return rewrite


DAMAGES: dict[str, Damage] = {
    "flipped pages": flip,
    "one flipped byte": flip_one,
    "values of another type": retyped("stats", pa.int64()),
    "files without a size": retyped("size", pa.int64()),
}


def opened(spark: SparkSession, table: Path, **options: Any) -> Snapshot:
    return DeltaLog.for_table(spark, table, clock=FixedClock(), options=SnapshotOptions(**options)).snapshot


def assert_right(snapshot: Snapshot) -> None:
    state = snapshot.computed_state
    assert (state.num_of_files, state.size_in_bytes, state.num_records) == (101, BYTES + 1, None)


def test_summary_of_vacuum_names_a_file_of_the_log_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    file = make_table(tmp_path / "t", with_commits=False)
    tables = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine="spark")).snapshot.tables
    flip(file)
    with pytest.raises(CorruptLogError, match=file_names.checkpoint_file(2)):
        tables.vacuum_summary()


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_computed_state_falls_back_from_a_damaged_checkpoint(
    spark: SparkSession, tmp_path: Path, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    file = make_table(tmp_path)
    damage(file)
    snapshot = opened(spark, tmp_path)
    with caplog.at_level(logging.WARNING):
        assert_right(snapshot)
    assert f"{file.name} cannot be used for version {LAST}" in caplog.text
    assert len(max((record.getMessage() for record in caplog.records), key=len)) < 1000
    assert snapshot.all_files.count() == 101
    write_log(tmp_path, {4: [add("another", size=1)]})
    assert DeltaLog.for_table(spark, tmp_path, clock=FixedClock()).update().computed_state.num_of_files == 102


@pytest.fixture
def ignoring(spark: SparkSession) -> Iterator[None]:
    """Use a session that skips damaged and missing files."""
    names = ["spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"]
    for name in names:
        spark.conf.set(name, "true")
    yield
    for name in names:
        spark.conf.unset(name)


@pytest.mark.spark  # Sail has no such settings, and reads links to the files
@pytest.mark.usefixtures("ignoring")
def test_no_setting_of_the_session_skips_files_of_a_log_or_a_store(spark: SparkSession, tmp_path: Path) -> None:
    file = make_table(tmp_path / "t", with_commits=False)
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock()), LAST, LAST)
    snapshot, stored = opened(spark, tmp_path / "t", engine="spark"), store.all_files("t", LAST)
    assert snapshot.log.loaded.checkpoint is not None
    for damage in (flip, Path.unlink):
        damage(file)
        with pytest.raises(CorruptLogError, match=file.name):
            _ = snapshot.computed_state
        for each in (tmp_path / "store").rglob("*.parquet"):
            damage(each)
        with pytest.raises(SPARK_FAILURES):
            stored.collect()


@pytest.mark.spark  # Sail has no such setting
def test_no_pattern_of_the_session_skips_files_of_a_table_log_or_store(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path / "t", with_commits=False)
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"id": [5]}), tmp_path / "rows" / "a.parquet")
    write_log(tmp_path / "rows", {0: [protocol(), metadata(), add("a.parquet")]})
    store = SnapshotStore.open(spark, tmp_path / "store")
    spark.conf.set("spark.sql.files.ignoredPathSegmentRegex", "parquet")
    try:
        assert DeltaLog.for_table(spark, tmp_path / "rows").snapshot.scan().take(9).to_pydict() == {"id": [5]}
        log = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock(), options=SnapshotOptions(engine="spark"))
        assert log.snapshot.all_files.count() == 101
        store.write_range("t", log, LAST, LAST)
        assert store.all_files("t", LAST).count() == store.computed_state("t", LAST).num_of_files == 101
    finally:
        spark.conf.unset("spark.sql.files.ignoredPathSegmentRegex")


@pytest.mark.parametrize("style", ["classic", "v2-json-sidecars"])
def test_file_that_vanishes_after_listing_is_skipped(
    spark: SparkSession, tmp_path: Path, style: CheckpointStyle
) -> None:
    file = make_table(tmp_path, style=style)
    snapshot = opened(spark, tmp_path)
    assert snapshot.log.loaded.checkpoint is not None
    file.unlink()
    assert_right(snapshot)
    assert snapshot.all_files.count() == 101


def test_older_checkpoint_is_preferred_to_the_commits(spark: SparkSession, tmp_path: Path) -> None:
    file = make_table(tmp_path)
    write_checkpoint(tmp_path / file_names.LOG_FOLDER, 1, "classic", [protocol(), metadata(), *FILES])
    flip(file)
    snapshot = opened(spark, tmp_path)
    assert_right(snapshot)
    assert snapshot.log.loaded.checkpoint is not None
    assert snapshot.log.loaded.checkpoint.version == 1


FRAMES_DAMAGES: dict[str, Damage] = {
    "flipped pages": flip,
    "values of another type": retyped("stats", pa.int64()),
    "a map of another type": retyped("partitionValues", pa.string()),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", one_in(3, FRAMES_DAMAGES.values()), ids=FRAMES_DAMAGES)
def test_frames_fall_back_if_pages_are_checked_first(spark: SparkSession, tmp_path: Path, damage: Damage) -> None:
    damage(make_table(tmp_path))
    snapshot = opened(spark, tmp_path, check_pages=True)
    rows = snapshot.state.collect()
    assert [sum(row[kind] is not None for row in rows) for kind in ("add", "remove")] == [101, 0]
    assert len(rows) == 103


def test_frames_name_a_damaged_file_without_fallback(spark: SparkSession, tmp_path: Path) -> None:
    file = make_table(tmp_path, with_commits=False)
    flip(file)
    with pytest.raises(CorruptLogError, match=file.name):
        _ = opened(spark, tmp_path, check_pages=True).all_files


@pytest.mark.slow
def test_stale_checksum_file_of_hadoop_is_ignored(spark: SparkSession, tmp_path: Path) -> None:
    file = make_table(tmp_path, with_commits=False)
    file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"1234" * 99)
    snapshot = opened(spark, tmp_path)
    assert_right(snapshot)
    assert snapshot.all_files.count() == 101


def test_checksum_is_compared_with_the_log_of_a_damaged_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    flip(make_table(tmp_path))
    files = [action["add"] for action in [*FILES, add("last", size=1)]]
    said = {"tableSizeBytes": BYTES + 1, "numFiles": 101, "numMetadata": 1, "numProtocol": 1, "allFiles": files}
    crc = tmp_path / file_names.LOG_FOLDER / file_names.checksum_file(LAST)
    crc.write_text(json.dumps(said), encoding="utf-8")
    assert opened(spark, tmp_path).validate_checksum() == ()


@pytest.mark.slow
@pytest.mark.parametrize("damage", one_in(4, DAMAGES.values()), ids=DAMAGES)
def test_store_is_written_despite_a_damaged_checkpoint(spark: SparkSession, tmp_path: Path, damage: Damage) -> None:
    damage(make_table(tmp_path / "table"))
    log = DeltaLog.for_table(spark, tmp_path / "table", clock=FixedClock())
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", log, 2, 3)
    assert [store.computed_state("t", version).num_of_files for version in (2, 3)] == [100, 101]


@pytest.mark.slow
def test_store_names_its_own_damaged_file(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path / "table")
    log = DeltaLog.for_table(spark, tmp_path / "table", clock=FixedClock())
    store = SnapshotStore.open(spark, tmp_path / "store")
    (manifest,) = store.write_range("t", log, 2, 2)
    (name,) = [file.path for file in manifest.base.files]
    file = tmp_path / "store" / "t" / manifest.generation / name
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(b ^ 0xFF for b in content[4:-2000]) + content[-2000:])
    write_log(tmp_path / "table", {3: [add("f1", size=7)]})
    with pytest.raises(CorruptStoreError, match=file.name):
        store.write_range("t", log, 3, 3)


@pytest.mark.slow
def test_frames_of_a_store_name_a_damaged_file_if_pages_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path / "table")
    log = DeltaLog.for_table(spark, tmp_path / "table", clock=FixedClock())
    store = SnapshotStore.open(spark, tmp_path / "store", check_pages=True)
    (manifest,) = store.write_range("t", log, 2, 2)
    assert store.all_files("t", 2).count() == 100
    (data,) = manifest.base.files
    file = tmp_path / "store" / "t" / manifest.generation / data.path
    content = file.read_bytes()
    file.write_bytes(content[:4] + bytes(b ^ 0xFF for b in content[4:-2000]) + content[-2000:])
    for frame in (store.state, store.all_files, store.tombstones):
        with pytest.raises(CorruptStoreError, match=file.name):
            frame("t", 2)


HUGE = 2**63 - 1


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_beyond_64_bits_are_correct(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    stats = json.dumps({"numRecords": HUGE})
    vector = {"storageType": "u", "pathOrInlineDv": "abc", "sizeInBytes": 1, "cardinality": HUGE}
    huge = [add(name, size=HUGE, stats=stats, deletionVector=vector) for name in "abc"]
    write_log(
        tmp_path, {0: [protocol(), metadata()], 1: huge, 2: [{"remove": {"path": "a", "deletionVector": vector}}]}
    )
    before = spark.conf.get("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        log = DeltaLog.for_table(spark, tmp_path, clock=FixedClock())
        for version, count in ((1, 3), (2, 2)):
            state = log.get_snapshot_at(version).computed_state
            assert (state.size_in_bytes, state.num_records, state.num_deleted_records) == (count * HUGE,) * 3
            assert state.file_size_histogram.total_bytes[-1] == count * HUGE
        store = SnapshotStore.open(spark, tmp_path / "store")
        store.write_range("t", log, 0, 2)
        assert [store.computed_state("t", version).size_in_bytes for version in range(3)] == [0, 3 * HUGE, 2 * HUGE]
        assert store.manifest("t", 2).version_changes is not None
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACTIONS = [add(f"f{number}", size=number) for number in range(20)]
ENGINES: tuple[EngineUse, ...] = ("auto", "spark")
VIEWS = [
    *(("spark", view) for view in ("computed_state", "all_files", "state", "scan", "filtered scan", "store")),
    *(pytest.param("auto", view, marks=pytest.mark.thorough) for view in ("filtered scan", "store")),
]


def table_of(table: Path, *, blanks: int, with_commits: bool = True, other: str = "remove") -> Path:
    """Write versions 0 to 2, a checkpoint at 1 in which one row of an add holds another action too."""
    log = write_log(table, {0: [protocol(), metadata()], 1: ACTIONS, 2: [add("last", size=1)]})
    (file,) = write_checkpoint(log, 1, "classic", [protocol(), metadata(), *ACTIONS])
    rows = pq.read_table(file)
    values: list[Any] = [None] * rows.num_rows
    values[-1] = {**remove("gone"), "txn": {"appId": "x", "version": 1}}[other]
    column = pa.array(values, rows.schema.field(other).type)
    rows = rows.set_column(rows.schema.get_field_index(other), other, column)
    nothing = pa.Table.from_pylist([{}] * blanks, schema=rows.schema)
    # The footer cannot tell where there are rows without an action.
    pq.write_table(pa.concat_tables([rows, nothing]), file)
    if not with_commits:
        for version in range(2):
            (log / file_names.commit_file(version)).unlink()
    return file


@pytest.mark.parametrize("other", ["remove", "txn"])
@pytest.mark.parametrize("blanks", [0, 5])
def test_version_falls_back_from_a_checkpoint_with_two_actions_in_a_row(
    tmp_path: Path, blanks: int, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = table_of(tmp_path, blanks=blanks, other=other)
    snapshot = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).get_snapshot_at(2)
    with caplog.at_level(logging.WARNING):
        assert (snapshot.computed_state.num_of_files, snapshot.computed_state.num_of_removes) == (21, 0)
    assert f"{file.name} cannot be used for version 2" in caplog.text
    assert not snapshot.transactions


@pytest.mark.parametrize("other", ["remove", "txn"])
@pytest.mark.parametrize("blanks", [0, 5])
def test_error_names_a_damaged_checkpoint_without_fallback(tmp_path: Path, blanks: int, other: str) -> None:
    file = table_of(tmp_path, blanks=blanks, other=other, with_commits=False)
    with pytest.raises(CorruptLogError, match="at most one action in a row") as caught:
        _ = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).get_snapshot_at(2).computed_state
    assert caught.value.path == file.as_uri()


@pytest.mark.parametrize(("engine", "view"), VIEWS)
def test_each_view_falls_back_if_used_first(spark: SparkSession, tmp_path: Path, engine: EngineUse, view: str) -> None:
    table_of(tmp_path / "t", blanks=5)
    options = SnapshotOptions(engine=engine, check_pages=True)
    log = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock(), options=options)
    snapshot = log.get_snapshot_at(2)
    match view:
        case "computed_state":
            count = snapshot.computed_state.num_of_files
        case "all_files":
            count = snapshot.all_files.count()
        case "state":
            count = snapshot.state.where("add is not null").count()
        case "scan":
            count = snapshot.scan().files.count()
        case "filtered scan":
            count = snapshot.scan("1 = 1").report.files_after_statistics
        case _:
            store = SnapshotStore.open(spark, tmp_path / "store")
            store.write_range("t", log, 2, 2)
            count = store.computed_state("t", 2).num_of_files
            assert count == store.all_files("t", 2).count()
    assert count == 21


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_names_a_damaged_only_checkpoint(spark: SparkSession, tmp_path: Path, engine: EngineUse) -> None:
    file = table_of(tmp_path, blanks=5, with_commits=False)
    options = SnapshotOptions(engine=engine)
    snapshot = DeltaLog.for_table(spark, tmp_path, clock=FixedClock(), options=options).snapshot
    with pytest.raises(CorruptLogError, match="at most one action in a row") as caught:
        _ = snapshot.computed_state
    assert caught.value.path == file.as_uri()


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import Snapshot

FEATURES = ["deletionVectors"]


def of_snapshot(read: Callable[[Snapshot], DataFrame]) -> Callable[[DeltaLog], list[str]]:
    return lambda log: sorted(map(repr, read(log.snapshot).collect()))


VIEWS_OF_NULLS: dict[str, Callable[[DeltaLog], Any]] = {
    "files": of_snapshot(lambda snapshot: snapshot.all_files),
    "state": of_snapshot(lambda snapshot: snapshot.state),
    "tombstones": of_snapshot(lambda snapshot: snapshot.tombstones),
    "rows": of_snapshot(lambda snapshot: snapshot.scan().to_df()),
    "candidates": of_snapshot(lambda snapshot: snapshot.tables.optimize_candidates.drop("partition")),
    "others": lambda log: (log.snapshot.transactions, log.snapshot.domain_metadata, log.snapshot.computed_state),
}


def write_table(table: Path) -> Path:
    """Write a version with a checkpoint and one with a commit. Return the checkpoint file."""
    files = [file(table, "a", ids(1, 2)), file(table, "b", ids(3, 4), deletionVector=inline_vector(0))]
    gone = [remove("c", deletionVector=inline_vector(0)), remove("d")]
    others = [
        protocol(3, 7, readerFeatures=FEATURES, writerFeatures=[*FEATURES, "domainMetadata"]),
        metadata(),
        {"txn": {"appId": "app", "version": 7}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]
    log = write_log(table, {0: [*others, *files, *gone], 1: [remove("e"), file(table, "f", ids(5))]})
    (log / file_names.commit_file(0)).unlink()
    (checkpoint,) = write_checkpoint(log, 0, "classic", [*others, *files, *gone])
    return checkpoint


@pytest.mark.slow
def test_struct_of_nulls_counts_as_null(spark: SparkSession, tmp_path: Path) -> None:
    def views(engine: EngineUse) -> dict[str, Any]:
        log = DeltaLog.for_table(spark, tmp_path, clock=FixedClock(), options=SnapshotOptions(engine=engine))
        found = {name: view(log) for name, view in VIEWS_OF_NULLS.items()}
        DeltaLog.clear_cache()
        return found

    checkpoint = write_table(tmp_path)
    before = views("auto")
    put_structs_of_nulls(checkpoint)
    assert views("auto") == before
    assert views("spark") == before


@pytest.mark.slow
def test_stored_and_written_files_have_no_struct_of_nulls(spark: SparkSession, tmp_path: Path) -> None:
    put_structs_of_nulls(write_table(tmp_path / "t"))
    log = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock())
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_versions("t", log, [0, 1])
    assert log.checkpoint().is_new
    DeltaLog.clear_cache()
    written = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock()).snapshot.all_files
    for rows in (store.read_arrow("t", 1), store.all_files("t", 1).toArrow(), written.toArrow()):
        assert [row["path"] for row in rows.to_pylist() if row["deletionVector"] is not None] == ["b"]
    DeltaLog.clear_cache()
