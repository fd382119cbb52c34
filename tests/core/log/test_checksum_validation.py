"""Which differences between a `.crc` file and its log are reported. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import TableLog, VersionChecksum
from deltasnap_core.log.checksum_validation import ChecksumDifference, compare_time_with_log, compare_with_log
from deltasnap_core.protocol.actions import AddFile
from deltasnap_core.protocol.log_files.file_names import checksum_file
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES
from tests.builders import LOG_PATH, add, metadata, protocol, write_log
from tests.conftest import FixedClock
from tests.without_spark import log_without_spark

COUNTS = {"tableSizeBytes": 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}


def differences(table: Path, *, listed: str = "a", stats: str | None = None, **said: Any) -> list[str]:
    """The fields that differ. listed: the path of the live file, canonical. stats: its statistics."""
    state = log_without_spark(TableLog.for_path(table, clock=FixedClock())).snapshot.computed_state
    checksum = VersionChecksum.parse(json.dumps({**COUNTS, **said}).encode())
    files = [AddFile.from_json(add(listed, stats=stats)["add"])]
    found = compare_with_log(checksum, state, files, LOG_PATH)
    return [difference.field for difference in found]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({}, ["set_transactions"]), ({"delta.setTransactionRetentionDuration": "interval 1 days"}, [])],
)
def test_unexpired_transactions_are_compared(tmp_path: Path, properties: dict[str, str], expected: list[str]) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(configuration=properties), add("a")]})
    assert differences(tmp_path, setTransactions=[{"appId": "q", "version": 1, "lastUpdated": 1}]) == expected


@pytest.mark.parametrize(
    ("logged", "canonical", "expected"),
    [
        ("a%20b", "a%20b", []),
        ("a%20%62", "a%20b", []),
        ("file:///t/f", "file:/t/f", []),
        ("/t/f", "file:/t/f", []),
        ("a", "b", ["all_files"]),
    ],
)
def test_files_are_compared_by_path_keys(tmp_path: Path, logged: str, canonical: str, expected: list[str]) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    assert differences(tmp_path, listed=canonical, allFiles=[add(logged)["add"]]) == expected


def test_files_with_several_deletion_vectors_are_compared_in_any_order(tmp_path: Path) -> None:
    vectors = [{"storageType": "u", "pathOrInlineDv": each, "sizeInBytes": 1, "cardinality": 1} for each in ("x", "y")]
    adds = [add("a", deletionVector=vector)["add"] for vector in vectors]
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    state = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).snapshot.computed_state
    checksum = VersionChecksum.parse(json.dumps({**COUNTS, "allFiles": adds}).encode())
    files = [AddFile.from_json(each) for each in reversed(adds)]
    assert compare_with_log(checksum, state, files, LOG_PATH) == ()


def stats_of(data_type: str, bound: object, **more: object) -> str:
    bounds = {} if bound is None else {"c": bound}
    nested = {"s": {"t": bound}} if data_type == "timestamp" else {}
    return json.dumps(
        {"numRecords": 1, "minValues": {**bounds, **nested, **more}, "maxValues": {}, "nullCount": {"c": 0}}
    )


@pytest.mark.parametrize(
    ("data_type", "logged", "rendered", "expected"),
    [
        ("timestamp", "2024-01-01T01:00:00.000+01:00", "2024-01-01T00:00:00.000Z", []),
        ("timestamp", "2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00.123Z", []),
        ("timestamp", "2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.124Z", ["all_files"]),
        ("timestamp", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z", ["all_files"]),
        ("timestamp_ntz", "2024-01-01T00:00:00.123456", "2024-01-01T00:00:00.123", []),
        ("string", "2024-01-01T01:00:00+01:00", "2024-01-01T00:00:00Z", ["all_files"]),
        ("timestamp", "soon", "later", ["all_files"]),
        ("double", 1, 1.0, []),
        ("long", 1, 2, ["all_files"]),
    ],
)
@pytest.mark.parametrize("is_mapped", [False, True])
def test_statistics_are_compared_as_values_of_the_schema(
    tmp_path: Path, data_type: str, logged: object, rendered: object, expected: list[str], is_mapped: bool
) -> None:
    def field(name: str, kind: object) -> dict[str, object]:
        physical = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": name}
        logical = f"logical {name}" if is_mapped else name
        return {"name": logical, "type": kind, "nullable": True, "metadata": physical if is_mapped else {}}

    inner = {"type": "struct", "fields": [field("t", data_type)]}
    schema = json.dumps({"type": "struct", "fields": [field("c", data_type), field("s", inner)]})
    mode = {"delta.columnMapping.mode": "name"} if is_mapped else {}
    created = metadata(schemaString=schema, configuration=mode)
    write_log(tmp_path, {0: [protocol(2, 5) if is_mapped else protocol(), created, add("a")]})
    in_checksum = add("a", stats=stats_of(data_type, logged, dropped=1))["add"]
    assert differences(tmp_path, stats=stats_of(data_type, rendered), allFiles=[in_checksum]) == expected


def test_empty_statistics_equal_absent_ones(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    in_checksum = add("a", stats='{"numRecords":1,"minValues":{},"nullCount":{"id":null}}')["add"]
    assert differences(tmp_path, stats='{"numRecords":1}', allFiles=[in_checksum]) == []
    assert differences(tmp_path, stats=None, allFiles=[in_checksum]) == ["all_files"]
    assert differences(tmp_path, stats="no json", allFiles=[in_checksum]) == ["all_files"]


def test_statistics_that_a_checkpoint_leaves_out_are_no_difference(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    stated = {"numRecords": 1, "minValues": {"id": 5}, "nullCount": {"id": 0}, "tightBounds": True}
    in_checksum = add("a", stats=json.dumps(stated))["add"]
    indexed: dict[str, Any] = {"numRecords": 1, "minValues": None, "nullCount": {}}
    assert differences(tmp_path, stats=json.dumps(indexed), allFiles=[in_checksum]) == []
    for wrong in ({"nullCount": {"id": 1}}, {"numRecords": 2}, {"numRecords": None}):
        assert differences(tmp_path, stats=json.dumps(indexed | wrong), allFiles=[in_checksum]) == ["all_files"]


@pytest.mark.parametrize("schema", [None, "{"], ids=["no metadata", "no schema"])
def test_statistics_are_compared_as_texts_if_the_schema_is_unknown(tmp_path: Path, schema: str | None) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    state = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).snapshot.computed_state
    assert state.metadata is not None
    unknown = None if schema is None else replace(state.metadata, schema_string=schema)
    file = add("a", stats='{"numRecords":1,"minValues":{}}')["add"]
    checksum = VersionChecksum.parse(json.dumps({**COUNTS, "allFiles": [file]}).encode())
    for stats, is_same in (('{"minValues":{},"numRecords":1}', True), ('{"numRecords":1}', False)):
        files = [AddFile.from_json({**file, "stats": stats})]
        found = compare_with_log(checksum, replace(state, metadata=unknown), files, LOG_PATH)
        assert ("all_files" not in {each.field for each in found}) is is_same


@pytest.mark.parametrize(("omitted", "expected"), [("readerFeatures", []), ("writerFeatures", ["protocol"])])
def test_writers_may_omit_an_empty_list_of_features(tmp_path: Path, omitted: str, expected: list[str]) -> None:
    logged: dict[str, Any] = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": ["appendOnly"],
    }
    write_log(tmp_path, {0: [{"protocol": logged}, metadata(), add("a")]})
    said = {name: value for name, value in logged.items() if name != omitted}
    assert differences(tmp_path, protocol=said) == expected


VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 40}


def in_bins(boundaries: Sequence[int], counts: list[int], totals: list[int]) -> dict[str, Any]:
    return {"sortedBinBoundaries": boundaries, "fileCounts": counts, "totalBytes": totals}


NO_FILES = in_bins(DEFAULT_BIN_BOUNDARIES, [0] * 95, [0] * 95)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"tableSizeBytes": 2}, ["table_size_bytes"]),
        ({"numFiles": 0}, ["num_files"]),
        ({"numMetadata": 0}, ["num_metadata"]),
        ({"numProtocol": 2}, ["num_protocol"]),
        ({"numDeletionVectorsOpt": 0}, ["num_deletion_vectors"]),
        ({"numDeletedRecordsOpt": 4}, ["num_deleted_records"]),
        ({"fileSizeHistogram": NO_FILES}, ["file_size_histogram"]),
        ({"fileSizeHistogram": in_bins([0], [1], [1])}, []),
        ({"fileSizeHistogram": in_bins([0, 7, 8192], [1, 0, 0], [1, 0, 0])}, []),
        ({"fileSizeHistogram": in_bins([0], [7], [1])}, ["file_size_histogram"]),
        ({"fileSizeHistogram": in_bins([0, 7, 8192], [0, 0, 1], [0, 0, 1])}, ["file_size_histogram"]),
        ({"deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [1] * 10}}, ["deleted_record_counts_histogram"]),
        ({"domainMetadata": []}, ["domain_metadata"]),
        ({"metadata": metadata(name="other")["metaData"]}, ["metadata"]),
        ({"protocol": protocol(1, 2)["protocol"]}, ["protocol"]),
        ({"inCommitTimestampOpt": 6}, ["in_commit_timestamp"]),
        ({"numDeletionVectorsOpt": 1, "numDeletedRecordsOpt": 3, "inCommitTimestampOpt": 5}, []),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_each_field_is_compared(tmp_path: Path, said: dict[str, Any], expected: list[str]) -> None:
    features = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors", "domainMetadata"])
    domain = {"domainMetadata": {"domain": "d", "configuration": "", "removed": False}}
    file = add("a", deletionVector={**VECTOR, "cardinality": 3}, stats='{"numRecords":9}')
    write_log(tmp_path, {0: [features, metadata(), domain, file]})
    state = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).snapshot.computed_state
    checksum = VersionChecksum.parse(json.dumps({**COUNTS, **said}).encode())
    found = (*compare_with_log(checksum, state), *compare_time_with_log(checksum, 5))
    assert [difference.field for difference in found] == expected


def test_in_commit_timestamp_is_compared_unless_the_commit_is_unknown(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    assert differences(tmp_path, inCommitTimestampOpt=6) == []
    (tmp_path / "_delta_log" / checksum_file(0)).write_text(json.dumps({**COUNTS, "inCommitTimestampOpt": 6}))
    log = TableLog.for_path(tmp_path, clock=FixedClock())
    (found,) = log_without_spark(log).snapshot.validate_checksum()
    assert str(found) == "in_commit_timestamp: 6 in the checksum, None in the log"
    (fault,) = log.condition().faults
    assert "in_commit_timestamp" in fault.text


def test_in_commit_timestamp_of_the_commit_equals_that_of_the_checksum(tmp_path: Path) -> None:
    timed = {"commitInfo": {"timestamp": 3, "inCommitTimestamp": 6, "operation": "WRITE"}}
    write_log(tmp_path, {0: [timed, protocol(), metadata(), add("a")]})
    log = TableLog.for_path(tmp_path, clock=FixedClock())
    for stated, expected in ((6, []), (7, ["in_commit_timestamp: 7 in the checksum, 6 in the log"])):
        checksum = json.dumps({**COUNTS, "inCommitTimestampOpt": stated})
        (tmp_path / "_delta_log" / checksum_file(0)).write_text(checksum)
        assert list(map(str, log_without_spark(log).snapshot.validate_checksum())) == expected


def test_schema_is_compared_as_json(tmp_path: Path) -> None:
    logged = metadata()
    spaced = json.dumps(json.loads(logged["metaData"]["schemaString"]), indent=1, sort_keys=True)
    write_log(tmp_path, {0: [protocol(), logged, add("a")]})
    assert differences(tmp_path, metadata=metadata(schemaString=spaced)["metaData"]) == []


def test_difference_shows_both_values() -> None:
    shown = str(ChecksumDifference(field="num_files", in_checksum=2, in_log=1))
    assert shown == "num_files: 2 in the checksum, 1 in the log"
