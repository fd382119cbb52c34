"""The manifest of a stored version: which files and values it consists of. Pure.

There is one JSON document per version. It is written last and atomically, so it is the commit point: everything it
names exists, and a file that no manifest names is not part of the store. It ends with a digest of its own bytes, so
that a flipped byte is detected as damage.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from deltasnap_core.log.commits.commit_summary import CommitSummary
from deltasnap_core.protocol.json_records import BigInt, JsonRecord, Long, json_text
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.store.format.shared_documents import JsonObject, Part
from deltasnap_core.store.format.version_identity import VersionIdentity

MANIFEST_FORMAT = 3
"""The format of the documents written here. A document of a higher format is rejected."""

_READABLE_FORMATS = (1, 2, MANIFEST_FORMAT)
"""Formats 1 and 2 have no digest. Format 1 also has no identity and no summary of the commit."""

_DIGEST = re.compile(rb',"digest":"([0-9a-f]{64})"\}\Z')


class LaterFormatError(ValueError):
    """A document has a format of a later release. It is not damaged, and must not be replaced. found: the format."""

    def __init__(self, found: int) -> None:
        self.found = found
        super().__init__(f"expected format {MANIFEST_FORMAT} or less, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile(JsonRecord):
    """A Parquet file: its path below the folder of its generation, its size in bytes, its number of rows.

    footer: the digest of its footer; None: not recorded.
    """

    json_name = "file"

    path: str
    size: Long
    rows: Long
    footer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet(JsonRecord):
    """Parquet files written together: a base (first equals last), or the changes of the versions first to last.

    files: empty if there are no rows.
    """

    json_name = "files"

    first: Long
    last: Long
    files: tuple[StoreFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainParquetFiles(JsonRecord):
    """`all_files` and `tombstones` of one version, one file each, for readers other than deltasnap."""

    json_name = "tables"

    all_files: StoreFile
    tombstones: StoreFile


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges(JsonRecord):
    """The files that a version added and removed, and their bytes. A base alone does not have these numbers."""

    json_name = "versionChanges"

    num_added_files: BigInt
    num_removed_files: BigInt
    added_bytes: BigInt
    removed_bytes: BigInt


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionManifest(JsonRecord):
    """One stored version of a table.

    generation:      the folder of its data; a table that is dropped and created again, or restored and extended, gets a
                     new one.
    table_id:        the metadata id at this version.
    log_path:        URL of the log that was read.
    timestamp:       of the commit, ms since the epoch.
    min_file_retention_timestamp: tombstones after this time (ms) are kept: the commit's timestamp minus the retention;
                     0: all are kept.
    base, changes:   the state is the base plus these changes up to this version; each set follows the previous one.
    version_changes: None if the previous version is not stored.
    plain_parquet:   None unless it was requested.
    identity:        distinguishes this version of the log from another one with the same number; None: unknown (format
                     1).
    commit:          the summary of its commit; None: the log no longer had it, or unknown (format 1).
    computed_by:     how it was computed: `Spark 4.3.0, local[2]`, or `driver: 12 actions applied to version 40`; None:
                     unknown, stored by an earlier release.
    computed_state, log_segment: the small values, without those in `parts`.
    parts:           by name, the objects that are mostly equal between versions.
    """

    json_name = "manifest"

    table: str
    version: Long
    generation: str
    table_id: str
    log_path: str
    timestamp: Long
    min_file_retention_timestamp: Long
    base: DataSet
    changes: tuple[DataSet, ...] = ()
    version_changes: VersionChanges | None = None
    plain_parquet: Annotated[PlainParquetFiles | None, Field(alias="tables")] = None
    identity: VersionIdentity | None = None
    commit: CommitSummary | None = None
    computed_by: str | None = None
    computed_state: JsonObject = field(default_factory=dict)
    log_segment: JsonObject = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_sets(self)

    @property
    def retention(self) -> Retention:
        """Which tombstones the version keeps."""
        return Retention.after(self.min_file_retention_timestamp)

    @property
    def change_rows(self) -> int:
        """The number of rows of all changes since the base."""
        return sum(changes.rows for changes in self.changes)

    @property
    def rows(self) -> int:
        """The number of rows that are read for the state of the version: of its base and all changes."""
        return self.base.rows + self.change_rows

    @property
    def checksum_file(self) -> FileStatus | None:
        """The `.crc` file of the version as it was in the log; None: there was none."""
        values = self.log_segment.get("checksumFile")
        return None if values is None else FileStatus.from_json(values)

    @property
    def data_files(self) -> Iterator[StoreFile]:
        """Every Parquet file of the version."""
        for data_set in (self.base, *self.changes):
            yield from data_set.files
        yield from self.plain_parquet_files

    @property
    def plain_parquet_files(self) -> tuple[StoreFile, ...]:
        """The files of plain Parquet; empty: none were requested."""
        return () if self.plain_parquet is None else (self.plain_parquet.all_files, self.plain_parquet.tombstones)

    @property
    def documents(self) -> frozenset[str]:
        """The digests of the shared documents that the version needs."""
        return frozenset(part.shared for part in self.parts.values() if part.shared is not None)

    @classmethod
    def from_bytes(cls, content: bytes) -> VersionManifest:
        """Return the manifest from the bytes of a document.

        Errors: ValueError stating the problem; LaterFormatError if a later release wrote it.
        """
        return cls.from_json(manifest_values(content))

    def to_bytes(self) -> bytes:
        """Return the document: UTF-8 JSON, fields in the order of this class."""
        values = {"format": MANIFEST_FORMAT, **self.to_json()}
        if self.plain_parquet is not None:
            values["tables"] = values.pop("plainParquet")
        content = json_text(values).encode()
        return b'%s,"digest":"%s"}' % (content[:-1], _digest(content))


def manifest_values(content: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a manifest, after checking its format and its digest.

    Errors: ValueError stating the problem; LaterFormatError if a later release wrote it.
    """
    values: Any = decode_json(content)
    found = values.get("format") if isinstance(values, Mapping) else None
    if type(found) is int and found > MANIFEST_FORMAT:
        raise LaterFormatError(found)
    if found not in _READABLE_FORMATS:
        raise ValueError(f"expected a manifest of format {MANIFEST_FORMAT} or less, found {found!r}")
    if found == MANIFEST_FORMAT or "digest" in values:
        _check_digest(content)
    return dict(values)


def _check_digest(content: bytes) -> None:
    found = _DIGEST.search(content)
    if found is None or found[1] != _digest(content[: found.start()] + b"}"):
        raise ValueError("expected the content of its digest, found other content")


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _check_sets(manifest: VersionManifest) -> None:
    """Raise ValueError unless the base and the changes lead to the version without a gap."""
    reached = manifest.base.last
    for data_set in manifest.changes:
        if data_set.first != reached + 1 or data_set.last < data_set.first:
            raise ValueError(f"expected changes from version {reached + 1} on, found {data_set.first}-{data_set.last}")
        reached = data_set.last
    before_last = manifest.changes[-1].first if manifest.changes else manifest.base.last
    if not before_last <= manifest.version <= reached:
        raise ValueError(f"expected a base and changes that lead to version {manifest.version}, found up to {reached}")
