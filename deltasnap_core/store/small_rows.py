"""The rows of a small version, read and written by Arrow in this process: to start a Spark job takes longer.

They are the same rows that `stored_rows` reads and writes with Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.log.action_lines import FILE_DIGEST_LINES
from deltasnap_core.log.checkpoint_contents import UNREADABLE
from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.replay.driver.reconciliation import newest, unexpired, with_path_keys
from deltasnap_core.replay.driver.whole_actions import WHOLE, UnusualError, decoded, path_keys_of
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.rules.measures import DIGESTED_COLUMNS, FILE_DIGEST, digest_of
from deltasnap_core.rules.paths import canonical_paths
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.manifest import DataFile, DataSet, VersionManifest

MOST_ROWS = 50_000
"""A version of so many rows is small: they are read in 30 ms."""

MOST_CHANGES = 2_000
"""So many changes are written here: one page of Parquet."""

MOST_IN_BASE = 20_000
"""So many rows of a base are written here: the keys of so many take as long as to start a Spark job."""

CHANGES = pa.schema([("version", pa.int64()), ("key", pa.int64()), *WHOLE])
"""The columns of the store's changes. A base has the last three."""

SMALL_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("deleted_at", pa.int64()),
        ("partition_values", pa.map_(pa.string(), pa.string())),
    ]
)
"""A live file, or a tombstone: path (canonical), bytes (null: it does not say), when it was deleted (ms; null: it is
live), partition values as the log has them (null for a tombstone).
"""

_IN_SHORT = pa.schema(
    [
        *FILE_DIGEST_LINES,
        ("raw_path", pa.string()),
        ("removed_size", pa.int64()),
        SMALL_FILES.field("partition_values"),
    ]
)
"""A stored row: its digest, and what else is shown of it, as far as that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallRows:
    """Reads and writes the rows of one table's small versions. folder: of the generation. Errors: CorruptStoreError."""

    storage: WritableFiles
    folder: str
    log_path: str

    def digests(self, manifest: VersionManifest) -> pa.Table:
        """Return the reconciled file actions of a version, as digests with keys."""
        return self._newest(manifest, DIGESTED_COLUMNS).select(["path_key", *FILE_DIGEST.names[1:]])

    def files(self, manifest: VersionManifest) -> pa.Table:
        """Return the live files and the tombstones that have not expired (SMALL_FILES), in any order."""
        without_stats = [name for name in DIGESTED_COLUMNS if not name.startswith("add.stats")]
        rows = self._newest(manifest, [*without_stats, "add.partitionValues", "remove.size"])
        columns = {
            "path": canonical_paths(rows["raw_path"].combine_chunks(), self.log_path),
            "size": pc.coalesce(rows["size"], rows["removed_size"]),
            "deleted_at": rows["deleted_at"],
            "partition_values": rows["partition_values"],
        }
        return unexpired(pa.table(columns, schema=SMALL_FILES), manifest.retention)

    def write_changes(
        self, changes: pa.Table, merged: Sequence[DataSet], up_to: int, path: str, first: int, last: int
    ) -> DataSet:
        """Write changes (CHANGES) of the versions first to last, with those of earlier sets up to a version."""
        files = [file for data_set in merged for file in data_set.files]
        earlier = [self._read(file, CHANGES.names, _as_changes) for file in files]
        kept = [rows.filter(pc.less_equal(rows["version"], up_to)) for rows in earlier]
        return DataSet(first=first, last=last, files=self._write(pa.concat_tables([*kept, changes]), path))

    def write_base(self, actions: pa.Table, path: str, version: int) -> DataSet:
        """Write the newest action of each logical file of a version (WHOLE)."""
        keys = pa.array(map(xxhash64, path_keys_of(actions, self.log_path)), pa.int64())
        rows = actions.add_column(0, CHANGES.field("key"), keys)
        return DataSet(first=version, last=version, files=self._write(rows, path))

    def _write(self, rows: pa.Table, path: str) -> tuple[DataFile, ...]:
        """Write rows into a new folder, by their keys."""
        if not rows.num_rows:
            return ()
        stream = BytesIO()
        pq.write_table(rows.sort_by("key"), stream, compression="zstd", write_page_checksum=True)
        name, content = f"{path}/part-0.parquet", stream.getvalue()
        self.storage.write(join_url(self.folder, name), content)
        return (DataFile(path=name, size=len(content), rows=rows.num_rows),)

    def _newest(self, manifest: VersionManifest, columns: Sequence[str]) -> pa.Table:
        """Return the newest action of each logical file: its digest with its key, and what was read of it."""
        files = [file for data_set in (manifest.base, *manifest.changes) for file in data_set.files]
        read = [self._read(file, ["version", *columns], _in_short) for file in files]
        rows = pa.concat_tables([_IN_SHORT.empty_table(), *read])
        rows = rows.filter(pc.less_equal(rows["commit_version"], manifest.version))
        # One row a version and file: any order within a version will do, but it must be one.
        rows = rows.set_column(1, _IN_SHORT.field("line_number"), pa.array(np.arange(rows.num_rows, dtype=np.int32)))
        return newest(with_path_keys(rows, self.log_path))

    def _read(self, file: DataFile, columns: Sequence[str], made: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Return what is made of some columns of a file."""
        path = join_url(self.folder, file.path)
        try:
            with self.storage.open(path) as stream:
                return made(pq.ParquetFile(stream, page_checksum_verification=True).read(columns=list(columns)))
        except (*UNREADABLE, KeyError) as error:
            reason = f"file actions could not be read: {' '.join(str(error).split())}"
            raise CorruptStoreError(path=path, reason=reason) from error


def changes_of_commits(batch: CommitBatch, log_path: str) -> pa.Table | None:
    """Return what each commit changed (CHANGES), one row a version and logical file, in any order.

    None: Spark is to read them. They are large, or hold what Python reads otherwise: maps of other values than texts,
    NaN where nobody looks.
    """
    if batch.large:
        return None
    lines = with_path_keys(batch.lines_with(*WHOLE.names), log_path)
    versions = [lines.filter(pc.equal(lines["commit_version"], commit.version)) for commit in batch.commits]
    changed = pa.concat_tables([lines.slice(0, 0), *map(newest, versions)])
    try:
        actions = decoded(changed["line"].to_pylist())
    except UnusualError:
        return None
    keys = pa.array(map(xxhash64, changed["path_key"].to_pylist()), pa.int64())
    return pa.table([changed["commit_version"], keys, *actions.columns], schema=CHANGES)


def _as_changes(rows: pa.Table) -> pa.Table:
    return rows.select(CHANGES.names).cast(CHANGES)


def _in_short(rows: pa.Table) -> pa.Table:
    digests = digest_of(rows)
    # Those of a base come before all changes.
    versions = rows["version"] if "version" in rows.column_names else np.full(rows.num_rows, -1)
    columns = {
        "commit_version": versions,
        "line_number": np.zeros(rows.num_rows, np.int32),
        **{name: digests[name] for name in digests.column_names},
        "raw_path": digests["path"],
        "removed_size": _field(rows["remove"].combine_chunks(), "size", pa.int64()),
        "partition_values": _field(rows["add"].combine_chunks(), "partitionValues", pa.map_(pa.string(), pa.string())),
    }
    return pa.table(columns, schema=_IN_SHORT)


def _field(structs: pa.StructArray, name: str, kind: pa.DataType) -> pa.Array:
    has_field = structs.type.get_field_index(name) >= 0
    return pc.struct_field(structs, name).cast(kind) if has_field else pa.nulls(len(structs), kind)
