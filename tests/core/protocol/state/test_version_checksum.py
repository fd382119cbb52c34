"""The checksum of a version, and its histograms, whose bins are copied from the protocol and from Delta."""

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


# PROTOCOL.md, Deleted Record Counts Histogram Schema: the fewest and the most deleted records of each bin.
DELETED_RECORDS = (
    (0, 0),
    (1, 9),
    (10, 99),
    (100, 999),
    (1000, 9999),
    (10000, 99999),
    (100000, 999999),
    (1000000, 9999999),
    (10000000, 2147483646),
    (2147483647, 9223372036854775807),
)
# Delta's FileSizeHistogram, in KiB.
FILE_SIZES_KIB = (
    *(0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    *(8192, 12288, 16384, 20480, 24576, 28672, 32768, 36864, 40960),
    *(49152, 57344, 65536, 73728, 81920, 90112, 98304, 106496, 114688, 122880),
    *(126976, 131072, 135168, 139264, 143360, 147456),
    *(163840, 180224, 196608, 212992, 229376, 245760, 262144, 278528, 294912, 311296, 327680, 344064, 360448, 376832),
    *(393216, 409600, 425984, 442368, 458752, 475136, 491520, 507904, 524288, 540672, 557056, 573440, 589824),
    *(655360, 720896, 786432, 851968, 917504, 983040, 1048576, 1114112, 1179648, 1245184, 1310720, 1376256, 1441792),
    *(1572864, 1703936, 1835008, 1966080, 2097152),
    *(2359296, 2621440, 2883584, 3145728, 3407872, 3670016, 3932160, 4194304),
    *(8388608, 16777216, 33554432, 67108864, 134217728, 268435456),
)


@pytest.mark.parametrize(("number", "fewest", "most"), [(n, *ends) for n, ends in enumerate(DELETED_RECORDS)])
def test_deleted_records_are_counted_in_the_bin_of_the_protocol(number: int, fewest: int, most: int) -> None:
    counted = DeletedRecordCountsHistogram.of_counts([fewest, most]).deleted_record_counts
    assert counted == tuple(2 * (place == number) for place in range(10))


def test_bins_of_deleted_records_start_at_the_boundaries_of_the_protocol() -> None:
    assert tuple(fewest for fewest, _ in DELETED_RECORDS) == BIN_STARTS


def test_negative_counts_and_sizes_are_ignored() -> None:
    assert sum(DeletedRecordCountsHistogram.of_counts([-1]).deleted_record_counts) == 0
    assert sum(FileSizeHistogram.of_sizes([-1]).file_counts) == 0


@pytest.mark.parametrize("bins", [9, 11])
def test_histogram_of_deleted_records_without_ten_bins_is_an_error(bins: int) -> None:
    with pytest.raises(ValueError, match=f"expected 10 bins, found {bins}"):
        DeletedRecordCountsHistogram.from_json({"deletedRecordCounts": [0] * bins})


def test_file_sizes_are_counted_in_deltas_bins() -> None:
    assert tuple(size * 1024 for size in FILE_SIZES_KIB) == DEFAULT_BIN_BOUNDARIES
    assert len(FILE_SIZES_KIB) == 95


def test_file_is_counted_from_the_boundary_of_its_bin_on() -> None:
    histogram = FileSizeHistogram.of_sizes([0, 8191, 8192, 16383, 16384, 2**50])
    assert histogram.file_counts[:3] == (2, 2, 1)
    assert histogram.total_bytes[:3] == (8191, 8192 + 16383, 16384)
    assert (histogram.file_counts[-1], histogram.total_bytes[-1]) == (1, 2**50)


@pytest.mark.parametrize(
    ("boundaries", "counts", "totals", "reported"),
    [
        ([1, 2], [0, 0], [0, 0], "must be 0"),
        ([], [], [], "must be 0"),
        ([0, 5, 5], [0, 0, 0], [0, 0, 0], "ascend"),
        ([0, 5, 4], [0, 0, 0], [0, 0, 0], "ascend"),
        ([0, 5], [0], [0, 0], "2, 1 and 2"),
        ([0, 5], [0, 0], [0, 0, 0], "2, 2 and 3"),
    ],
    ids=["starts later", "empty", "equal", "descending", "fewer counts", "more totals"],
)
def test_histogram_that_contradicts_itself_is_an_error(
    boundaries: list[int], counts: list[int], totals: list[int], reported: str
) -> None:
    with pytest.raises(ValueError, match=reported):
        FileSizeHistogram.from_json({"sortedBinBoundaries": boundaries, "fileCounts": counts, "totalBytes": totals})


@pytest.mark.parametrize("total", [True, "1", 1.5, None])
def test_histogram_of_sizes_with_a_total_that_is_not_an_integer_is_an_error(total: object) -> None:
    values = {"sortedBinBoundaries": [0], "fileCounts": [1], "totalBytes": [total]}
    with pytest.raises(ValueError, match=r"totalBytes\[0\]: (expected an integer|required)"):
        FileSizeHistogram.from_json(values)


def test_numbers_of_a_histogram_may_have_a_fraction_of_zero() -> None:
    values = {"sortedBinBoundaries": [0.0], "fileCounts": [2.0], "totalBytes": [9.0]}
    found = FileSizeHistogram.from_json(values)
    assert (found.sorted_bin_boundaries, found.file_counts, found.total_bytes) == ((0,), (2,), (9,))


def test_total_of_sizes_may_be_beyond_sixty_four_bits() -> None:
    values = {"sortedBinBoundaries": [0], "fileCounts": [2], "totalBytes": [2**64]}
    assert FileSizeHistogram.from_json(values).total_bytes == (2**64,)


def test_histogram_in_fewer_bins_adds_up_the_others() -> None:
    def of(boundaries: tuple[int, ...], counts: tuple[int, ...], totals: tuple[int, ...]) -> FileSizeHistogram:
        return FileSizeHistogram(sorted_bin_boundaries=boundaries, file_counts=counts, total_bytes=totals)

    fine, coarse = of((0, 10, 20, 30), (1, 2, 3, 4), (1, 20, 60, 120)), of((0, 20, 25), (0, 0, 0), (0, 0, 0))
    assert fine.in_bins_of(coarse) == of((0, 20), (3, 7), (21, 180))
