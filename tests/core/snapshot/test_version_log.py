"""The facts about a version without Spark, from the checksum or the log, even if part of the log is broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltasnap_core.errors import ActionNotFoundError, CorruptLogError, TimestampNotFoundError, UnsupportedProtocolError
from deltasnap_core.protocol.log_files import file_names
from tests.builders import LOG_PATH, TABLE_PATH, add, commit_info, metadata, mtime_of, protocol, timed_protocol
from tests.conftest import NOW_MS
from tests.core.snapshot.conftest import Table

WEEK_MS = 7 * 24 * 60 * 60 * 1000
ICT = {"delta.enableInCommitTimestamps": "true"}


def test_protocol_metadata_and_counts_with_a_checksum_are_one_listing_and_one_read(table: Table) -> None:
    table.commits(0, 11)
    table.commit(12, commit_info())
    table.checkpoint(10)
    table.checksum(12, tableSizeBytes=70, numFiles=7, setTransactions=[{"appId": "a", "version": 3}], domainMetadata=[])
    snapshot = table.log().get_snapshot_at(12)
    assert (snapshot.protocol.min_writer_version, snapshot.metadata.id) == (2, "table-id")
    assert (snapshot.size_in_bytes, snapshot.num_of_files) == (70, 7)
    assert (snapshot.transactions, snapshot.domain_metadata) == ({"a": 3}, {})
    assert snapshot.timestamp == mtime_of(12)
    assert (len(table.store.lists), table.store.opens, table.store.statuses) == (1, [], [])
    assert table.store.reads == [f"{LOG_PATH}/{file_names.checksum_file(12)}"]


def test_scans_take_the_schema_from_the_log_even_if_the_checksum_has_another(table: Table) -> None:
    table.commits(0, 1)
    table.checksum(1, metadata=metadata(table_id="other")["metaData"])
    snapshot = table.log().get_snapshot_at(1)
    assert snapshot.metadata.id == "other"
    assert snapshot.scanned_table().metadata.id == "table-id"
    assert snapshot.metadata.id == "table-id"


def test_counts_are_those_of_the_log_once_a_scan_has_read_it(table: Table) -> None:
    table.commit(0, protocol(), metadata(), add("a", size=7))
    table.checksum(0, numFiles=99, tableSizeBytes=9)
    snapshot = table.log().get_snapshot_at(0)
    assert (snapshot.num_of_files, snapshot.size_in_bytes) == (99, 9)
    assert snapshot.scan()._totals is None  # the report of the scan counts the files
    assert (snapshot.num_of_files, snapshot.size_in_bytes) == (1, 7)


def test_a_version_answers_from_its_checksum_and_the_version_as_read_from_the_log(table: Table) -> None:
    table.commit(0, protocol(), metadata(), {"txn": {"appId": "a", "version": 1}})
    table.checksum(0, metadata=metadata(table_id="other")["metaData"], setTransactions=[], domainMetadata=[])
    version = table.log().context.table_log.at(0)
    read = version.read()
    assert (version.metadata.id, version.transactions) == ("other", {})
    assert (read.metadata.id, read.transactions) == ("table-id", {"a": 1})
    assert version.loaded is read.loaded
    assert version.read() is read is read.read()
    assert version.metadata.id == "other"


def test_a_version_whose_log_cannot_be_read_answers_from_its_checksum(table: Table) -> None:
    table.commit(0, protocol(), metadata())
    table.files.put(file_names.commit_file(1), b"not json")
    table.checksum(1, setTransactions=[])
    version = table.log().context.table_log.at(1)
    assert version.read() is version
    assert version.metadata.id == "table-id"
    with pytest.raises(CorruptLogError):
        _ = version.loaded


def test_in_commit_timestamp_comes_from_the_checksum_without_another_read(table: Table) -> None:
    table.commits(0, 1)
    table.checksum(1, metadata=metadata(configuration=ICT)["metaData"], inCommitTimestampOpt=77, **timed_protocol())
    snapshot = table.log().get_snapshot_at(1)
    assert (snapshot.timestamp, len(table.store.reads)) == (77, 1)


@pytest.mark.parametrize("is_read", [False, True])
def test_timestamp_of_a_version_without_its_commit_comes_from_the_checksum(table: Table, is_read: bool) -> None:
    with_ict = metadata(configuration=ICT)
    table.checkpoint(1, timed_protocol(), with_ict)
    table.checksum(1, metadata=with_ict["metaData"], inCommitTimestampOpt=77, **timed_protocol())
    snapshot = table.log().get_snapshot_at(1)
    if is_read:
        assert snapshot.computed_state.num_of_files == 0
    assert snapshot.timestamp == 77


def test_partition_columns_match_the_schema_in_any_case(table: Table) -> None:
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "Part")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    table.commit(0, protocol(), metadata(schemaString=schema, partitionColumns=["part"]))
    snapshot = table.log().snapshot
    assert (snapshot.partition_schema.names, snapshot.data_schema.names) == (["Part"], ["id"])


def test_transactions_of_a_checksum_do_not_count_if_they_expire(table: Table) -> None:
    kept = metadata(configuration={"delta.setTransactionRetentionDuration": "interval 1 week"})
    old, new = NOW_MS - WEEK_MS, NOW_MS - WEEK_MS + 1
    txns = [{"appId": name, "version": 1, "lastUpdated": time} for name, time in (("old", old), ("new", new))]
    table.commit(0, protocol(), kept, *[{"txn": txn} for txn in txns], {"txn": {"appId": "undated", "version": 1}})
    table.checksum(0, metadata=kept["metaData"], setTransactions=txns)
    snapshot = table.log().snapshot
    assert snapshot.transactions == {"new": 1}
    assert [txn.last_updated for txn in snapshot.set_transactions] == [new]


def test_without_a_checksum_protocol_and_metadata_come_from_the_log(table: Table) -> None:
    table.commit(0)
    table.commit(1, metadata(configuration={"path": "x", "delta.dataSkippingNumIndexedCols": "5"}))
    table.commit(2, protocol(3, 7, readerFeatures=["columnMapping"], writerFeatures=["columnMapping", "identity"]))
    snapshot = table.log().snapshot
    assert snapshot.get_properties() == {
        "delta.dataSkippingNumIndexedCols": "5",
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
        "delta.feature.columnMapping": "supported",
        "delta.feature.identity": "supported",
    }
    assert (snapshot.num_indexed_cols, snapshot.column_mapping_mode) == (5, "none")


def test_schemas_of_data_and_partitions_are_separate(table: Table) -> None:
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("a", "p", "b", "q")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    table.commit(0, protocol(), metadata(schemaString=schema, partitionColumns=["q", "p"]))
    snapshot = table.log().snapshot
    assert snapshot.data_schema.names == ["a", "b"]
    assert snapshot.partition_schema.names == ["q", "p"]
    assert snapshot.partition_columns == ("q", "p")


@pytest.mark.parametrize("missing", ["protocol", "metadata"])
def test_log_without_protocol_or_metadata_is_an_error_on_access(table: Table, missing: str) -> None:
    table.commit(0, metadata() if missing == "protocol" else protocol())
    snapshot = table.log().get_snapshot_at(0)
    for member in (missing, "state", "computed_state", "transactions"):
        with pytest.raises(ActionNotFoundError) as caught:
            getattr(snapshot, member)
        assert (caught.value.action, caught.value.version) == (missing, 0)


def test_disabled_validation_shows_a_log_without_metadata(table: Table) -> None:
    table.commit(0, protocol(), {"txn": {"appId": "a", "version": 1}})
    snapshot = table.log(validate_state=False).snapshot
    assert (snapshot.transactions, snapshot.min_file_retention_timestamp) == ({"a": 1}, NOW_MS - WEEK_MS)


@pytest.mark.parametrize("with_checksum", [False, True])
def test_unsupported_protocol_does_not_affect_facts_without_a_replay(table: Table, with_checksum: bool) -> None:
    new = protocol(3, 7, readerFeatures=["fromTheFuture", "deletionVectors"], writerFeatures=["fromTheFuture"])
    table.commit(0, new, metadata())
    if with_checksum:
        table.checksum(0, protocol=new["protocol"], setTransactions=None)
    log = table.log()
    snapshot = log.get_snapshot_at(0)
    assert snapshot.protocol.reader_features == ("fromTheFuture", "deletionVectors")
    assert (snapshot.metadata.id, snapshot.version, snapshot.timestamp) == ("table-id", 0, mtime_of(0))
    assert log.history.get_history()[0].version == 0
    for member in ("state", "all_files", "tombstones", "computed_state", "transactions", "domain_metadata"):
        with pytest.raises(UnsupportedProtocolError) as caught:
            getattr(snapshot, member)
        assert (caught.value.features, caught.value.path) == (("fromTheFuture",), TABLE_PATH)


def test_unsupported_protocol_is_reported_even_if_its_log_looks_broken(table: Table) -> None:
    table.commits(0, 1)
    table.checkpoint(1, broken=True)
    table.files.delete(table.files.statuses[f"{LOG_PATH}/{file_names.commit_file(0)}"])
    table.commit(2, protocol(3, 7, readerFeatures=["fromTheFuture"], writerFeatures=[]), metadata())
    snapshot = table.log().snapshot
    assert snapshot.protocol.reader_features == ("fromTheFuture",)
    with pytest.raises(UnsupportedProtocolError):
        _ = snapshot.all_files


def test_manifest_commit_is_rejected_and_never_misread(table: Table) -> None:
    table.commit(0)
    table.commit(1, {"checkpoint": {"version": 1, "path": "tree"}})
    with pytest.raises(UnsupportedProtocolError):
        _ = table.log().snapshot.transactions


def test_unreadable_checkpoint_falls_back_with_a_warning(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 9)
    table.checkpoint(3, protocol(), metadata(), {"txn": {"appId": "of the checkpoint", "version": 3}})
    broken = table.checkpoint(7, broken=True)
    log = table.log()
    snapshot = log.snapshot
    assert snapshot.transactions == {"of the checkpoint": 3}
    assert f"{broken} cannot be used for version 9" in caplog.text
    assert (snapshot.log.loaded.checkpoint and snapshot.log.loaded.checkpoint.version) == 3
    table.store.reset()
    assert log.update() is snapshot
    table.commit(10, {"txn": {"appId": "new", "version": 1}})
    caplog.clear()
    assert log.update().transactions == {"of the checkpoint": 3, "new": 1}
    assert table.store.reads == [f"{LOG_PATH}/{file_names.commit_file(10)}"]
    assert caplog.text == ""


def test_unreadable_checkpoint_falls_back_to_the_commits(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 4)
    table.checkpoint(3, protocol(), metadata(), {"sidecar": {"path": "gone.parquet", "sizeInBytes": 1}})
    assert table.log().snapshot.log.loaded.checkpoint is None
    assert "_sidecars/gone.parquet cannot be used" in caplog.text


def test_unreadable_checkpoint_without_fallback_raises_an_error_that_names_it(table: Table) -> None:
    table.commits(3, 4)
    broken = table.checkpoint(3, broken=True)
    with pytest.raises(CorruptLogError) as caught:
        _ = table.log().snapshot.metadata
    assert caught.value.path == f"{LOG_PATH}/{broken}"


def test_broken_line_of_a_commit_is_an_error_with_file_and_line(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 4)
    table.checkpoint(3)
    table.files.put(file_names.commit_file(4), b'{"commitInfo":{}}\n\n{"add":{"path":"x","siz')
    with pytest.raises(CorruptLogError) as caught:
        _ = table.log().snapshot.metadata
    assert (caught.value.path, caught.value.line) == (f"{LOG_PATH}/{file_names.commit_file(4)}", 3)
    assert "cannot be used" not in caplog.text


def test_tombstones_expire_by_the_tables_own_property(table: Table) -> None:
    table.commit(0, protocol(), metadata(configuration={"delta.deletedFileRetentionDuration": "interval 2 hours"}))
    log = table.log()
    assert log.snapshot.min_file_retention_timestamp == NOW_MS - 2 * 60 * 60 * 1000
    assert log.get_snapshot_at(0, min_file_retention_timestamp=0).min_file_retention_timestamp == 0


def tampered(table: Table) -> dict[int, int]:
    """Commits with modified file times that repeat and go back. Return the expected time of each version."""
    for version, minute in enumerate((5, 5, 3, 9, 8)):
        table.files.put_commit(version, *([protocol(), metadata()] if version == 0 else []), mtime=minute * 60_000)
    five, nine = 5 * 60_000, 9 * 60_000
    return {0: five, 1: five + 1, 2: five + 2, 3: nine, 4: nine + 1}


def test_time_travel_outside_the_range_is_an_error_or_allowed(table: Table) -> None:
    times = tampered(table)
    log = table.log()
    for wrong in (times[0] - 1, times[4] + 1):
        with pytest.raises(TimestampNotFoundError) as caught:
            log.get_snapshot_at(timestamp=wrong)
        assert (caught.value.earliest_ms, caught.value.latest_ms) == (times[0], times[4])
    assert log.get_snapshot_at(timestamp=times[4] + 1, can_return_last_commit=True).version == 4
    assert log.get_snapshot_at(timestamp=times[0] - 1, can_return_earliest_commit=True).version == 0


@pytest.mark.parametrize("schema", ['{"type":"struct"}', "[]", "{", '{"type":"array","elementType":' * 20_000])
def test_invalid_schema_raises_an_error_that_names_log_and_version(table: Table, schema: str) -> None:
    table.commit(0, protocol(), metadata(schemaString=schema))
    with pytest.raises(CorruptLogError, match=r"line 2: metadata of version 0: metaData\.schemaString") as found:
        _ = table.log().snapshot.schema
    assert len(str(found.value)) < 400
