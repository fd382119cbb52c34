"""Builders for the tests of manifest."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.log.commits.commit_batch import ChangedFile
from deltasnap_core.log.commits.commit_summary import CommitSummary
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.store.format.manifest import DataSet, PlainParquetFiles, StoreFile, VersionChanges, VersionManifest
from deltasnap_core.store.format.shared_documents import Part
from deltasnap_core.store.format.version_identity import CommitIdentity, VersionIdentity

FILE = StoreFile(path="base/x/part-0.parquet", size=1024, rows=20, footer="f1")


BASE = DataSet(first=10, last=10, files=(FILE,))


MANIFEST = VersionManifest(
    table="events",
    version=12,
    generation="000001-id",
    table_id="id",
    log_path="file:///data/é/_delta_log",
    timestamp=1_700_000_000_000,
    min_file_retention_timestamp=1_699_000_000_000,
    base=BASE,
    changes=(DataSet(first=11, last=12, files=(replace(FILE, path="changes/y/part-0.parquet", rows=4),)),),
    version_changes=VersionChanges(num_added_files=1, num_removed_files=2, added_bytes=3, removed_bytes=4),
    plain_parquet=PlainParquetFiles(all_files=FILE, tombstones=FILE),
    identity=VersionIdentity(
        commit=CommitIdentity(size=7, modification_time=8, in_commit_timestamp=None, digest="d1"), chain="c1"
    ),
    commit=CommitSummary(
        info=CommitInfo(operation="WRITE", operation_parameters={"mode": "Append"}),
        sample=(ChangedFile(change="+", path="é", size=3), ChangedFile(change="-", path="b", size=None)),
    ),
    computed_by="Spark 4.3.0, local[2]",
    computed_state={"numOfFiles": 20},
    log_segment={"version": 12},
    parts={"metadata": Part(entries={"id": "id"}), "deltas": Part(shared="abc", removed=("k",))},
)
