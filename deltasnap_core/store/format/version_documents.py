"""Converts the computed state and the log segment of a version to the documents of a manifest, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.shared_documents import (
    JsonObject,
    Part,
    part_of,
)

METADATA = "metadata"
TRANSACTIONS = "setTransactions"
DOMAINS = "domainMetadata"
DELTAS = "deltas"
COMPACTIONS = "compactions"
CHECKPOINT_FILES = "checkpointFiles"


class VersionDocuments:
    """Adds documents to manifests, version by version. Each shares as much as possible with the previous one.

    previous:  the version before the first one; None: share nothing.
    documents: by digest, the shared documents that `previous` needs.
    """

    def __init__(self, previous: VersionManifest | None, documents: Mapping[str, JsonObject]) -> None:
        self._parts: Mapping[str, Part] = {} if previous is None else previous.parts
        self._documents = dict(documents)
        self._commits: tuple[str, tuple[FileStatus, ...]] = ("", ())
        self.new: dict[str, JsonObject] = {}
        """Shared documents by digest. They must be written before the manifests."""

    def added_to(self, manifest: VersionManifest, state: SnapshotState, segment: LogSegment) -> VersionManifest:
        """Return a manifest with the documents of its version added."""
        computed_state, parts = _split_state(state)
        parts[COMPACTIONS] = _by_name(segment.compactions, segment.log_path)
        parts[CHECKPOINT_FILES] = _by_name(segment.checkpoint_provider.files, segment.log_path)
        deltas = self._deltas(segment)
        self._parts = {DELTAS: deltas} | {name: self._part(name, whole) for name, whole in parts.items()}
        log_segment = segment.to_json_without_lists()
        return replace(manifest, computed_state=computed_state, log_segment=log_segment, parts=self._parts)

    def _deltas(self, segment: LogSegment) -> Part:
        """Return the commits by name. There may be thousands, nearly all as in the previous version."""
        log_path, known = self._commits
        self._commits = segment.log_path, segment.deltas
        if log_path == segment.log_path and segment.deltas[: len(known)] == known:
            extended = self._parts[DELTAS].extended(_by_name(segment.deltas[len(known) :], log_path))
            if extended.is_small:
                return extended
        return self._part(DELTAS, _by_name(segment.deltas, segment.log_path))

    def _part(self, name: str, whole: JsonObject) -> Part:
        part = part_of(whole, self._parts.get(name), self._documents)
        if part.shared is not None and part.shared not in self._documents:
            self.new[part.shared] = self._documents[part.shared] = whole
        return part


def computed_state_of(manifest: VersionManifest, documents: Mapping[str, JsonObject]) -> SnapshotState:
    """Return the computed state of a stored version.

    Errors: KeyError, ValueError or TypeError if the manifest or a document is damaged.
    """
    parts = manifest.parts
    metadata = parts[METADATA].resolve(documents) if METADATA in parts else None
    transactions, domains = parts[TRANSACTIONS].resolve(documents), parts[DOMAINS].resolve(documents)
    return SnapshotState.from_json(
        {
            **manifest.computed_state,
            "metadata": metadata,
            "setTransactions": list(transactions.values()),
            "domainMetadata": list(domains.values()),
        }
    )


def log_segment_of(manifest: VersionManifest, documents: Mapping[str, JsonObject]) -> LogSegment:
    """Return the log segment of a stored version.

    Errors: KeyError, ValueError or TypeError if the manifest or a document is damaged.
    """
    compactions, files = (
        _statuses(manifest.parts[name].resolve(documents), manifest.log_path)
        for name in (COMPACTIONS, CHECKPOINT_FILES)
    )
    deltas = _statuses(manifest.parts[DELTAS].resolve(documents), manifest.log_path)
    return LogSegment.from_json(
        manifest.log_segment,
        log_path=manifest.log_path,
        deltas=sorted(deltas, key=lambda file: commit_version(file.path)),
        compactions=compactions,
        checkpoint_files=files,
    )


def last_commit_file_of(manifest: VersionManifest) -> FileStatus | None:
    """Return the commit of a stored version as it was in the log. Reads only the manifest."""
    values = manifest.log_segment.get("lastCommitFile")
    return None if values is None else FileStatus.from_json(values)


def deltas_of(manifest: VersionManifest, documents: Mapping[str, JsonObject]) -> dict[int, tuple[int, int]]:
    """Return size and modification time (ms) of the commits in a stored version's log segment, by version.

    Errors: as `log_segment_of`.
    """
    part = manifest.parts.get(DELTAS, Part())
    return {commit_version(name): (size, time) for name, (size, time) in part.resolve(documents).items()}


def _split_state(state: SnapshotState) -> tuple[JsonObject, dict[str, JsonObject]]:
    small = state.to_json()
    metadata = small.pop("metadata")
    parts: dict[str, JsonObject] = {
        TRANSACTIONS: {value["appId"]: value for value in small.pop("setTransactions")},
        DOMAINS: {value["domain"]: value for value in small.pop("domainMetadata")},
    }
    if metadata is not None:
        parts[METADATA] = metadata
    return small, parts


def _by_name(files: Iterable[FileStatus], log_path: str) -> JsonObject:
    """Return size and modification time of each file, by its path below the log, or by its URL if it is elsewhere."""
    prefix = join_url(log_path, "")
    return {file.path.removeprefix(prefix): [file.size, file.modification_time] for file in files}


def _statuses(by_name: JsonObject, log_path: str) -> list[FileStatus]:
    return [
        FileStatus(
            path=name if "://" in name else join_url(log_path, name), size=size, modification_time=modification_time
        )
        for name, (size, modification_time) in by_name.items()
    ]
