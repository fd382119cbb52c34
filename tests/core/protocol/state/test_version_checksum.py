from __future__ import annotations

import json
from typing import Any

import pytest

from deltasnap_core.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.state.deleted_record_counts_histogram import BIN_STARTS, DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.protocol.state.version_checksum import VersionChecksum

REQUIRED = {"tableSizeBytes": 2**53 + 1, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
SIZES = {"sortedBinBoundaries": [0, 1024], "fileCounts": [1, 0], "totalBytes": [9, 0]}
DELETED = {"deletedRecordCounts": [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]}
ADD = {"path": "a", "partitionValues": {}, "size": 9, "modificationTime": 1, "dataChange": False}


def parse(values: dict[str, Any]) -> VersionChecksum:
    return VersionChecksum.parse(json.dumps(values).encode() + b"\n")


def test_parse_reads_every_field() -> None:
    checksum = parse(
        {
            **REQUIRED,
            "txnId": "t",
            "inCommitTimestampOpt": 7,
            "setTransactions": [{"appId": "a", "version": 3}],
            "domainMetadata": [{"domain": "d", "configuration": "{}", "removed": False}],
            "metadata": {"id": "m", "partitionColumns": ["p"]},
            "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
            "fileSizeHistogram": SIZES,
            "allFiles": [ADD],
            "numDeletedRecordsOpt": 4,
            "numDeletionVectorsOpt": 2,
            "deletedRecordCountsHistogramOpt": DELETED,
            "someday": {},
        }
    )
    assert checksum == VersionChecksum(
        table_size_bytes=2**53 + 1,
        num_files=1,
        num_metadata=1,
        num_protocol=1,
        txn_id="t",
        in_commit_timestamp=7,
        set_transactions=(SetTransaction(app_id="a", version=3),),
        domain_metadata=(DomainMetadata(domain="d", configuration="{}", removed=False),),
        metadata=Metadata(id="m", partition_columns=("p",)),
        protocol=Protocol(min_reader_version=1, min_writer_version=2),
        file_size_histogram=FileSizeHistogram(sorted_bin_boundaries=(0, 1024), file_counts=(1, 0), total_bytes=(9, 0)),
        all_files=(AddFile(path="a", partition_values={}, size=9, modification_time=1, data_change=False),),
        num_deleted_records=4,
        num_deletion_vectors=2,
        deleted_record_counts_histogram=DeletedRecordCountsHistogram(deleted_record_counts=(1, *[0] * 8, 2)),
    )


def test_parse_finds_the_histograms_under_their_older_names() -> None:
    older = parse({**REQUIRED, "histogramOpt": SIZES, "deletedRecordCountsHistogram": DELETED})
    newer = parse({**REQUIRED, "fileSizeHistogram": SIZES, "deletedRecordCountsHistogramOpt": DELETED})
    assert older == newer
    assert older.file_size_histogram is not None
    assert older.deleted_record_counts_histogram is not None


def test_parse_distinguishes_an_absent_list_from_an_empty_one() -> None:
    assert parse(REQUIRED).set_transactions is None
    assert parse({**REQUIRED, "setTransactions": [], "allFiles": []}).set_transactions == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b"not json", "Expecting value"),
        (b"[]", "expected an object"),
        (b"{}", r"checksum\.tableSizeBytes: required"),
        (json.dumps({**REQUIRED, "numFiles": "1"}).encode(), r"checksum\.numFiles: expected a 64-bit integer"),
        (json.dumps({**REQUIRED, "numFiles": -1}).encode(), r"checksum\.numFiles: expected 0 or more"),
        (json.dumps({**REQUIRED, "allFiles": [{}]}).encode(), r"checksum\.allFiles\[0\]\.path: required"),
        (json.dumps({**REQUIRED, "allFiles": {}}).encode(), r"checksum\.allFiles: expected an array"),
        (json.dumps({**REQUIRED, "histogramOpt": {**SIZES, "fileCounts": [1]}}).encode(), "of one length"),
        (json.dumps({**REQUIRED, "histogramOpt": {**SIZES, "sortedBinBoundaries": [1, 2]}}).encode(), "must be 0"),
        (json.dumps({**REQUIRED, "histogramOpt": {**SIZES, "sortedBinBoundaries": [0, 0]}}).encode(), "must ascend"),
        (
            json.dumps({**REQUIRED, "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [1]}}).encode(),
            "expected 10 bins, found 1",
        ),
    ],
    ids=range(12),
)
def test_parse_broken_content_is_an_error(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VersionChecksum.parse(content)


def test_file_size_histogram_puts_a_size_on_a_boundary_into_the_bin_that_starts_there() -> None:
    histogram = FileSizeHistogram.of_sizes([0, 8191, 8192, 2**60, -1])
    counts = dict(zip(DEFAULT_BIN_BOUNDARIES, histogram.file_counts, strict=True))
    assert (counts[0], counts[8192], counts[DEFAULT_BIN_BOUNDARIES[-1]], sum(counts.values())) == (2, 1, 1, 4)
    assert sum(histogram.total_bytes) == 8191 + 8192 + 2**60
    assert FileSizeHistogram.from_json(json.loads(json.dumps(histogram.to_json()))) == histogram


def test_histogram_of_deleted_records_has_ten_bins() -> None:
    ends = [*(start - 1 for start in BIN_STARTS[1:]), 2**62]
    histogram = DeletedRecordCountsHistogram.of_counts([*BIN_STARTS, *ends, -1])
    assert histogram.deleted_record_counts == (2,) * 10
    assert DeletedRecordCountsHistogram.from_json(histogram.to_json()) == histogram
