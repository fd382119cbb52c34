"""Creates a store of many tables with many versions, without logs, data or Spark. Equal arguments, equal stores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltasnap_core.log.listing.checkpoint_provider import NO_CHECKPOINT, CheckpointProvider
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, checkpoint_file, commit_file
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import FileSizeHistogram
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.layout import generation_name
from deltasnap_core.store.format.manifest import DataSet, StoreFile, VersionManifest
from deltasnap_core.store.format.version_documents import VersionDocuments
from deltasnap_core.store.format.version_identity import CommitIdentity, VersionIdentity
from deltasnap_core.store.versions.stored_table import StoredTable

FILE_BYTES = 1 << 20
_CHECKPOINT_INTERVAL = 10
_SCHEMA = '{"type":"struct","fields":[]}'

Commit = tuple[int, int]
"""A commit: its time (ms since the epoch), and the number of files of its version, of `FILE_BYTES` each."""


def table_of(root: Path, name: str) -> StoredTable:
    """Return a table of a store in a local folder."""
    return StoredTable(storage=WritableFiles(to_url(root)), root=to_url(root), name=name)


def store_table(root: Path, name: str, commits: Sequence[Commit], *, first: int = 0, **state: Any) -> StoredTable:
    """Store one version for each commit, from version `first` on, as a run would, but without data files.

    state: fields of each `SnapshotState` that differ from the generated ones.
    """
    stored = table_of(root, name)
    stored.commit(list(_manifests(stored, commits, first, state)))
    return stored


def _manifests(
    stored: StoredTable, commits: Sequence[Commit], first: int, changed: dict[str, Any]
) -> Iterable[VersionManifest]:
    generation = generation_name(1, f"id-of-{stored.name}")
    log_path = f"file:///lake/{stored.name}/_delta_log"
    documents, identity = VersionDocuments(None, {}), None
    times = {version: timestamp for version, (timestamp, _) in enumerate(commits, first)}
    base = DataSet(first=first, last=first, files=(_data_file("base", first, first, commits[0][1]),))
    for version, (timestamp, files) in enumerate(commits, first):
        changes = (DataSet(first=first + 1, last=version, files=(_data_file("changes", first + 1, version, version),)),)
        commit = CommitIdentity(
            size=900 + version,
            modification_time=timestamp,
            in_commit_timestamp=None,
            digest=hashlib.sha256(f"{stored.name}{version}".encode()).hexdigest(),
        )
        identity = VersionIdentity.following(identity, commit, {})
        manifest = VersionManifest(
            table=stored.name,
            version=version,
            generation=generation,
            table_id=f"id-of-{stored.name}",
            log_path=log_path,
            timestamp=timestamp,
            min_file_retention_timestamp=0,
            base=base,
            changes=changes if version > first else (),
            identity=identity,
            computed_by="driver: 2 actions applied",
        )
        segment = _segment(log_path, version, times)
        yield documents.added_to(manifest, replace(_state(stored.name, files), **changed), segment)
        stored.write_documents(generation, documents.new)
        documents.new.clear()


def _segment(log_path: str, version: int, times: Mapping[int, int]) -> LogSegment:
    """Return the log segment of a version: there is a checkpoint every ten versions."""
    last = version - version % _CHECKPOINT_INTERVAL
    deltas = tuple(
        FileStatus(path=join_url(log_path, commit_file(each)), size=900 + each, modification_time=times.get(each, 0))
        for each in range(last + 1 if last else 0, version + 1)
    )
    file = FileStatus(path=join_url(log_path, checkpoint_file(last)), size=9000, modification_time=times.get(last, 0))
    checkpoint = CheckpointProvider(version=last, files=(file,), kind=CheckpointKind.CLASSIC, format="parquet")
    return LogSegment(
        log_path=log_path,
        version=version,
        deltas=deltas,
        checkpoint_provider=checkpoint if last else NO_CHECKPOINT,
        last_commit_file=deltas[-1] if deltas else None,
        last_commit_timestamp=times[version],
    )


def _data_file(kind: str, first: int, last: int, rows: int) -> StoreFile:
    return StoreFile(path=f"{kind}/{first:020d}-{last:020d}-0123456789ab/part-0.parquet", size=1000 + rows, rows=rows)


def _state(name: str, files: int) -> SnapshotState:
    return SnapshotState(
        size_in_bytes=files * FILE_BYTES,
        num_of_files=files,
        num_of_removes=0,
        num_of_set_transactions=0,
        num_of_metadata=1,
        num_of_protocol=1,
        num_known_records=files * 100,
        num_files_without_records=0,
        num_deletion_vectors=0,
        num_deleted_records=0,
        set_transactions=(),
        domain_metadata=(),
        metadata=Metadata(id=f"id-of-{name}", schema_string=_SCHEMA),
        protocol=Protocol(min_reader_version=1, min_writer_version=2),
        file_size_histogram=FileSizeHistogram.of_sizes([FILE_BYTES] * files),
        deleted_record_counts_histogram=DeletedRecordCountsHistogram.of_counts([]),
    )
