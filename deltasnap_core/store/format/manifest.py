"""The manifest of a stored version: which files and values it consists of. Pure.

There is one JSON document per version. It is written last and atomically, so it is the commit point: everything it
names exists, and a file that no manifest names is not part of the store. It ends with a digest of its own bytes, so
that a flipped byte is detected as damage.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deltasnap_core.log.commits.commit_summary import CommitSummary
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.store.format.shared_documents import JsonObject, Part
from deltasnap_core.store.format.version_identity import VersionIdentity

MANIFEST_FORMAT = 3
"""The format of the documents written here. A document of a higher format is rejected."""

_READABLE_FORMATS = (1, 2, MANIFEST_FORMAT)
"""Formats 1 and 2 have no digest. Format 1 also has no identity and no summary of the commit."""

T = TypeVar("T")

_DIGEST = re.compile(rb',"digest":"([0-9a-f]{64})"\}\Z')


class LaterFormatError(ValueError):
    """A document has a format of a later release. It is not damaged, and must not be replaced. found: the format."""

    def __init__(self, found: int) -> None:
        self.found = found
        super().__init__(f"expected format {MANIFEST_FORMAT} or less, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A Parquet file: its path below the folder of its generation, its size in bytes, its number of rows.

    footer: the digest of its footer; None: not recorded.
    """

    path: str
    size: int
    rows: int
    footer: str | None = None

    @classmethod
    def from_json(cls, values: JsonObject) -> StoreFile:
        """Return the value from the result of `to_json`."""
        footer = None if values.get("footer") is None else _text(values, "footer")
        return cls(
            path=_text(values, "path"), size=_integer(values, "size"), rows=_integer(values, "rows"), footer=footer
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for the manifest."""
        values = {"path": self.path, "size": self.size, "rows": self.rows}
        return values if self.footer is None else {**values, "footer": self.footer}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Parquet files written together: a base (first equals last), or the changes of the versions first to last.

    files: empty if there are no rows.
    """

    first: int
    last: int
    files: tuple[StoreFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @classmethod
    def from_json(cls, values: JsonObject) -> DataSet:
        """Return the value from the result of `to_json`."""
        files = tuple(StoreFile.from_json(file) for file in values["files"])
        return cls(first=_integer(values, "first"), last=_integer(values, "last"), files=files)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for the manifest."""
        return {"first": self.first, "last": self.last, "files": [file.to_json() for file in self.files]}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainParquetFiles:
    """`all_files` and `tombstones` of one version, one file each, for readers other than deltasnap."""

    all_files: StoreFile
    tombstones: StoreFile

    @classmethod
    def from_json(cls, values: JsonObject) -> PlainParquetFiles:
        """Return the value from the result of `to_json`."""
        return cls(
            all_files=StoreFile.from_json(values["allFiles"]), tombstones=StoreFile.from_json(values["tombstones"])
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for the manifest."""
        return {"allFiles": self.all_files.to_json(), "tombstones": self.tombstones.to_json()}


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """The files that a version added and removed, and their bytes. A base alone does not have these numbers."""

    num_added_files: int
    num_removed_files: int
    added_bytes: int
    removed_bytes: int

    @classmethod
    def from_json(cls, values: JsonObject) -> VersionChanges:
        """Return the value from the result of `to_json`."""
        return cls(
            num_added_files=_integer(values, "numAddedFiles"),
            num_removed_files=_integer(values, "numRemovedFiles"),
            added_bytes=_integer(values, "addedBytes"),
            removed_bytes=_integer(values, "removedBytes"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for the manifest."""
        return {
            "numAddedFiles": self.num_added_files,
            "numRemovedFiles": self.num_removed_files,
            "addedBytes": self.added_bytes,
            "removedBytes": self.removed_bytes,
        }


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionManifest:
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

    table: str
    version: int
    generation: str
    table_id: str
    log_path: str
    timestamp: int
    min_file_retention_timestamp: int
    base: DataSet
    changes: tuple[DataSet, ...] = ()
    version_changes: VersionChanges | None = None
    plain_parquet: PlainParquetFiles | None = None
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
        return parse_manifest(content, cls._from_json)

    @classmethod
    def _from_json(cls, values: JsonObject) -> VersionManifest:
        changes, plain_parquet = values.get("versionChanges"), values.get("tables")
        identity, commit = values.get("identity"), values.get("commit")
        return cls(
            table=_text(values, "table"),
            version=_integer(values, "version"),
            generation=_text(values, "generation"),
            table_id=_text(values, "tableId"),
            log_path=_text(values, "logPath"),
            timestamp=_integer(values, "timestamp"),
            min_file_retention_timestamp=_integer(values, "minFileRetentionTimestamp"),
            base=DataSet.from_json(values["base"]),
            changes=tuple(DataSet.from_json(data_set) for data_set in values["changes"]),
            version_changes=None if changes is None else VersionChanges.from_json(changes),
            plain_parquet=None if plain_parquet is None else PlainParquetFiles.from_json(plain_parquet),
            identity=None if identity is None else VersionIdentity.from_json(identity),
            commit=None if commit is None else CommitSummary.from_json(commit),
            computed_by=None if values.get("computedBy") is None else _text(values, "computedBy"),
            computed_state=dict(values["computedState"]),
            log_segment=dict(values["logSegment"]),
            parts={name: Part.from_json(part) for name, part in values["parts"].items()},
        )

    def to_bytes(self) -> bytes:
        """Return the document: UTF-8 JSON, fields in the order of this class."""
        values: dict[str, Any] = {
            "format": MANIFEST_FORMAT,
            "table": self.table,
            "version": self.version,
            "generation": self.generation,
            "tableId": self.table_id,
            "logPath": self.log_path,
            "timestamp": self.timestamp,
            "minFileRetentionTimestamp": self.min_file_retention_timestamp,
            "base": self.base.to_json(),
            "changes": [data_set.to_json() for data_set in self.changes],
        }
        if self.version_changes is not None:
            values["versionChanges"] = self.version_changes.to_json()
        if self.plain_parquet is not None:
            values["tables"] = self.plain_parquet.to_json()
        if self.identity is not None:
            values["identity"] = self.identity.to_json()
        if self.commit is not None:
            values["commit"] = self.commit.to_json()
        if self.computed_by is not None:
            values["computedBy"] = self.computed_by
        values["computedState"] = dict(self.computed_state)
        values["logSegment"] = dict(self.log_segment)
        values["parts"] = {name: part.to_json() for name, part in self.parts.items()}
        content = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
        return b'%s,"digest":"%s"}' % (content[:-1], _digest(content))


def parse_manifest(content: bytes, parse: Callable[[JsonObject], T]) -> T:
    """Return the result of `parse` for the values of a valid manifest.

    Errors: ValueError stating the problem; LaterFormatError if a later release wrote it.
    """
    try:
        values = json.loads(content)
        if type(values["format"]) is int and values["format"] > MANIFEST_FORMAT:
            raise LaterFormatError(values["format"])
        if values["format"] not in _READABLE_FORMATS:
            raise ValueError(f"expected format {MANIFEST_FORMAT} or less, found {values['format']!r}")
        if values["format"] == MANIFEST_FORMAT or "digest" in values:
            _check_digest(content)
        return parse(values)
    except KeyError as error:
        raise ValueError(f"expected a field {error}, found none") from error
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"expected a manifest, found other JSON: {error}") from error


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


def _text(values: JsonObject, name: str) -> str:
    value = values[name]
    if not isinstance(value, str):
        raise ValueError(f"expected {name} to be text, found {value!r}")
    return value


def _integer(values: JsonObject, name: str) -> int:
    value = values[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"expected {name} to be an integer, found {value!r}")
    return value
