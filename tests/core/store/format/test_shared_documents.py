"""The parts of computed state and log segment in a manifest, and the parts shared with earlier versions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from deltasnap_core import (
    DomainMetadata,
    LogSegment,
    Metadata,
    Protocol,
    SetTransaction,
    SnapshotState,
    VersionManifest,
)
from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.store.format.shared_documents import JsonObject, Part, document_digest, encode_document, part_of
from deltasnap_core.store.format.version_documents import (
    VersionDocuments,
    computed_state_of,
    deltas_of,
    last_commit_file_of,
    log_segment_of,
)
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, checksum, commits, compaction, metadata, protocol
from tests.core.store.format.version_documents_builders import manifest_of
from tests.core.store.manifests import log_store, store_versions, stored_table, table_log

INLINE_BYTES, PATCH_BYTES = 1024, 8192
BIG = {f"key{n:05d}": {"version": n} for n in range(1000)}
BIG_DIGEST = document_digest(encode_document(BIG))


def test_equal_objects_have_one_text() -> None:
    assert encode_document({"b": {"d": 1, "c": "é"}, "a": 2}) == '{"a":2,"b":{"c":"é","d":1}}'.encode()


def test_name_of_a_document_is_that_of_earlier_releases() -> None:
    assert document_digest(encode_document({"a": 1})) == "015abd7f5cc57a2dd94b7590f04ad808"


SHARED, SMALL, OTHER = Part(shared=BIG_DIGEST), Part(entries={"a": 1}), {key: {"version": -1} for key in BIG}
PARTS: dict[str, tuple[JsonObject, Part | None, Part]] = {
    "a small object stays in the manifest": ({"a": 1}, None, SMALL),
    "a large object is a document named by its content": (BIG, None, SHARED),
    "an unchanged object shares the document of the version before": (dict(BIG), SHARED, SHARED),
    "a large difference starts a new document": (OTHER, SHARED, Part(shared=document_digest(encode_document(OTHER)))),
    "an object that became small leaves its document": ({"a": 1}, SHARED, SMALL),
    "a missing document is not used as a base": (BIG, Part(shared="gone"), SHARED),
}


@pytest.mark.parametrize(("value", "before", "expected"), PARTS.values(), ids=PARTS)
def test_object_is_in_the_manifest_or_in_a_document(value: JsonObject, before: Part | None, expected: Part) -> None:
    assert part_of(value, before, {BIG_DIGEST: BIG} if before == SHARED else {}) == expected


def test_small_difference_is_stored_next_to_the_shared_document() -> None:
    value = {**BIG, "key00001": {"version": -1}, "new": 1}
    del value["key00002"]
    found = part_of(value, Part(shared=BIG_DIGEST), {BIG_DIGEST: BIG})
    assert found == Part(shared=BIG_DIGEST, entries={"key00001": {"version": -1}, "new": 1}, removed=("key00002",))
    assert [*found.resolve({BIG_DIGEST: BIG}).items()] == sorted(value.items())


@pytest.mark.parametrize("length", [INLINE_BYTES, INLINE_BYTES + 1])
def test_object_up_to_a_size_stays_in_the_manifest(length: int) -> None:
    value = {"a": "x" * (length - len(encode_document({"a": ""})))}
    found = part_of(value, None, {})
    assert (found.shared is None) is (length == INLINE_BYTES)


def test_name_of_a_shared_document_must_be_a_text() -> None:
    with pytest.raises(ValueError, match=r"part\.shared: expected a string, found 1"):
        Part.from_json({"entries": {}, "shared": 1})


def test_extended_part_has_more_entries_and_needs_no_document() -> None:
    part = Part(shared=BIG_DIGEST, entries={"a": 1}, removed=("key00001", "key00002"))
    found = part.extended({"a": 2, "b": 3, "key00001": 4})
    expected = {**BIG, "a": 2, "b": 3, "key00001": 4}
    del expected["key00002"]
    assert found.resolve({BIG_DIGEST: BIG}) == expected
    assert found.is_small


def test_part_is_small_up_to_a_size() -> None:
    for shared, limit in ((None, INLINE_BYTES), (BIG_DIGEST, PATCH_BYTES)):
        empty = Part(shared=shared, entries={"a": ""})
        room = limit - len(encode_document(empty.to_json() if shared else empty.entries))
        sizes = [replace(empty, entries={"a": "x" * (room + more)}).is_small for more in (0, 1)]
        assert sizes == [True, False]


def test_bytes_per_version_stay_bounded_while_a_large_object_grows() -> None:
    value: dict[str, Any] = dict(BIG)
    documents: dict[str, JsonObject] = {}
    previous, in_manifests, shared_bytes = None, 0, 0
    versions = 200
    for version in range(versions):
        value = {**value, f"app{version}": {"version": version}}
        found = part_of(value, previous, documents)
        if found.shared is not None and found.shared not in documents:
            documents[found.shared] = value
            shared_bytes += len(encode_document(value))
        in_manifests = max(in_manifests, len(encode_document(found.to_json())))
        assert found.resolve(documents) == {key: value[key] for key in sorted(value)}
        previous = found
    assert in_manifests <= max(INLINE_BYTES, PATCH_BYTES) + 100
    assert shared_bytes / versions < 1024


OBJECTS = st.dictionaries(st.text(max_size=3), st.text(max_size=400), max_size=12)


@pytest.mark.slow
@given(st.lists(OBJECTS, max_size=8))
def test_object_is_restored_from_shared_documents(values: list[dict[str, str]]) -> None:
    documents: dict[str, JsonObject] = {}
    previous = None
    for value in values:
        found = part_of(value, previous, documents)
        if found.shared is not None:
            documents.setdefault(found.shared, value)
        assert Part.from_json(found.to_json()) == found
        assert found.resolve(documents) == value
        previous = found


def test_missing_shared_document_is_named(tmp_path: Path) -> None:
    table = stored_table(tmp_path)
    store_versions(table, table_log(log_store(range(1))), range(1))
    (manifest,) = table.read_manifests([*table.current_names().values()])
    table.write_documents(manifest.generation, {"first": {}})
    parts = {"metadata": Part(shared="first"), "state": Part(shared="abc")}
    with pytest.raises(CorruptStoreError, match="expected a shared document, found none") as raised:
        table.read_documents([replace(manifest, parts=parts)])
    assert raised.value.path.endswith("/000001-table-id/documents/abc.json")


def state_of(transactions: int = 2, **fields: Any) -> SnapshotState:
    empty = (0,) * len(DEFAULT_BIN_BOUNDARIES)
    values: dict[str, Any] = {
        "size_in_bytes": 7,
        "num_of_files": 1,
        "num_of_removes": 2,
        "num_of_set_transactions": transactions,
        "num_of_metadata": 1,
        "num_of_protocol": 1,
        "num_known_records": 3,
        "num_files_without_records": 0,
        "num_deletion_vectors": 0,
        "num_deleted_records": 0,
        "set_transactions": tuple(
            SetTransaction(app_id=f"app{n:05d}", version=n, last_updated=None) for n in range(transactions)
        ),
        "domain_metadata": (DomainMetadata(domain="d", configuration="{}", removed=False),),
        "metadata": Metadata.from_json(metadata()["metaData"]),
        "protocol": Protocol.from_json(protocol()["protocol"]),
        "file_size_histogram": FileSizeHistogram(
            sorted_bin_boundaries=DEFAULT_BIN_BOUNDARIES, file_counts=empty, total_bytes=empty
        ),
        "deleted_record_counts_histogram": DeletedRecordCountsHistogram(deleted_record_counts=(0,) * 10),
    }
    return SnapshotState(**{**values, **fields})


def segment_of(version: int, *files: Any) -> LogSegment:
    log = table_log(MemoryLogStore(*files))
    return log.range(version, version, log.builder.list_versions(0)).segment(version)


SEGMENTS = {
    "commits alone": segment_of(3, commits(0, 3)),
    "checkpoint, compaction, checksum": segment_of(
        12, commits(8, 12), checkpoint(9, parts=2), compaction(10, 11), checksum(12)
    ),
    "commit lost": segment_of(9, checkpoint(9)),
    "many commits": segment_of(400, commits(0, 400)),
}


@pytest.mark.parametrize("segment", SEGMENTS.values(), ids=SEGMENTS)
def test_state_and_segment_are_read_back_from_a_manifest(segment: LogSegment) -> None:
    state, documents = state_of(), VersionDocuments(None, {})
    found = documents.added_to(manifest_of(segment.version), state, segment)
    stored = VersionManifest.from_bytes(found.to_bytes())
    assert computed_state_of(stored, documents.new) == state
    assert log_segment_of(stored, documents.new) == segment
    assert last_commit_file_of(stored) == segment.last_commit_file
    assert stored.checksum_file == segment.checksum_file
    assert deltas_of(stored, documents.new) == {
        commit_version(commit.path): (commit.size, commit.modification_time) for commit in segment.deltas
    }


def test_stored_state_and_segment_are_small_values_and_parts() -> None:
    """Stores of this release have these documents."""
    segment, start = SEGMENTS["checkpoint, compaction, checksum"], 1_700_000_000_000
    found = json.loads(VersionDocuments(None, {}).added_to(manifest_of(12), state_of(), segment).to_bytes())
    histogram = found["computedState"].pop("fileSizeHistogram")
    assert {name: len(values) for name, values in histogram.items()} == {
        "sortedBinBoundaries": 95,
        "fileCounts": 95,
        "totalBytes": 95,
    }
    assert found["computedState"] == {
        "sizeInBytes": 7,
        "numOfFiles": 1,
        "numOfRemoves": 2,
        "numOfSetTransactions": 2,
        "numOfMetadata": 1,
        "numOfProtocol": 1,
        "numKnownRecords": 3,
        "numFilesWithoutRecords": 0,
        "numDeletionVectors": 0,
        "numDeletedRecords": 0,
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
        "deletedRecordCountsHistogram": {"deletedRecordCounts": [0] * 10},
    }
    assert found["logSegment"] == {
        "version": 12,
        "checkpoint": {"version": 9, "kind": "multipart", "format": "parquet"},
        "checksumFile": {"path": f"{LOG_PATH}/{12:020d}.crc", "size": 112, "modificationTime": start + 720_000},
        "lastCommitFile": {"path": f"{LOG_PATH}/{12:020d}.json", "size": 112, "modificationTime": start + 720_000},
        "lastCommitTimestamp": start + 720_000,
    }
    assert {name: part["entries"] for name, part in found["parts"].items()} == {
        "deltas": {f"{version:020d}.json": [100 + version, start + version * 60_000] for version in (10, 11, 12)},
        "compactions": {f"{10:020d}.{11:020d}.compacted.json": [110, start + 600_000]},
        "checkpointFiles": {
            f"{9:020d}.checkpoint.{part:010d}.{2:010d}.parquet": [109, start + 540_000] for part in (1, 2)
        },
        "setTransactions": {f"app0000{n}": {"appId": f"app0000{n}", "version": n} for n in (0, 1)},
        "domainMetadata": {"d": {"domain": "d", "configuration": "{}", "removed": False}},
        "metadata": metadata()["metaData"],
    }


def test_segments_that_do_not_continue_the_previous_one_are_read_back() -> None:
    first = SEGMENTS["commits alone"]
    *earlier, last = first.deltas
    rewritten = replace(first, deltas=(*earlier, replace(last, size=last.size + 1)))
    moved = replace(first, log_path="s3://elsewhere/_delta_log")
    documents = VersionDocuments(None, {})
    for segment in (first, segment_of(4, commits(0, 4)), rewritten, moved, SEGMENTS["commit lost"], first):
        manifest = replace(manifest_of(segment.version), log_path=segment.log_path)
        found = documents.added_to(manifest, state_of(), segment)
        assert log_segment_of(found, documents.new) == segment


def test_version_without_metadata_has_none() -> None:
    state = state_of(metadata=None, num_of_metadata=0)
    found = VersionDocuments(None, {}).added_to(manifest_of(3), state, SEGMENTS["commits alone"])
    assert computed_state_of(found, {}) == state


def test_versions_share_large_objects_and_store_differences() -> None:
    segments = {version: segment_of(version, commits(0, version)) for version in (400, 401, 402)}
    documents, manifests = VersionDocuments(None, {}), []
    for version, segment in segments.items():
        manifests.append(documents.added_to(manifest_of(version), state_of(900 + version), segment))
    assert len({digest for manifest in manifests for digest in manifest.documents}) == len(documents.new) == 2
    assert max(len(manifest.to_bytes()) for manifest in manifests) < 16_000
    for manifest in manifests:
        assert log_segment_of(manifest, documents.new) == segments[manifest.version]
        assert computed_state_of(manifest, documents.new) == state_of(900 + manifest.version)


def test_commits_of_many_versions_share_documents_of_bounded_differences() -> None:
    documents = VersionDocuments(None, {})
    for version in range(300, 600, 20):
        segment = segment_of(version, commits(0, version))
        found = documents.added_to(manifest_of(version), state_of(), segment)
        assert len(found.to_bytes()) < 16_000
        assert log_segment_of(found, documents.new) == segment
    assert 2 <= len(documents.new) <= 4


def test_version_after_a_stored_one_needs_no_separate_document() -> None:
    first = VersionDocuments(None, {})
    before = first.added_to(manifest_of(400), state_of(), SEGMENTS["many commits"])
    after = VersionDocuments(before, first.new)
    manifest = after.added_to(manifest_of(401), state_of(), segment_of(401, commits(0, 401)))
    assert after.new == {}
    assert manifest.documents == before.documents


def test_manifest_with_a_missing_document_is_not_read() -> None:
    manifest = VersionDocuments(None, {}).added_to(manifest_of(400), state_of(), SEGMENTS["many commits"])
    with pytest.raises(KeyError):
        log_segment_of(manifest, {})
    with pytest.raises(KeyError):
        computed_state_of(replace(manifest, parts={}), {})


def test_files_elsewhere_keep_their_urls() -> None:
    segment = SEGMENTS["commits alone"]
    moved = replace(segment.deltas[-1], path="s3://other/_delta_log/00000000000000000003.json")
    elsewhere = replace(segment, deltas=(*segment.deltas[:-1], moved), last_commit_file=moved)
    found = VersionDocuments(None, {}).added_to(manifest_of(3), state_of(), elsewhere)
    assert log_segment_of(found, {}) == elsewhere


def test_non_file_actions_match_the_state() -> None:
    actions = NonFileActions.of(state_of())
    assert (list(actions.transactions), list(actions.domains)) == (["app00000", "app00001"], ["d"])
    assert actions.metadata == state_of().metadata
