"""Stored versions without data, for tests without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltasnap_core import DeltaLog, LogSegment, LogStore, TableLog
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.commit_facts import CommitFacts
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.format.version_documents import VersionDocuments
from deltasnap_core.store.versions.common_version import CommonVersion, find_common_version
from deltasnap_core.store.versions.stored_table import StoredTable
from tests.builders import LOG_PATH, Action, MemoryLogStore, add, metadata, protocol

GENERATION = "000001-table-id"


def stored_table(folder: Path) -> StoredTable:
    """Return a table of a store in a local folder."""
    return StoredTable(storage=WritableFiles(to_url(folder)), root=to_url(folder), name="events")


def commit_actions(version: int, branch: str = "a") -> list[Action]:
    """Return the actions of a version; commits of both branches have the same size."""
    start = [protocol(), metadata()] if version == 0 else []
    return [*start, add(f"{branch}-{version:03d}", size=10)]


def log_store(versions: Iterable[int], branches: Mapping[int, str] | None = None, touched: int = 0) -> MemoryLogStore:
    """Return a log in memory. branches: by version, where it is not "a". touched: added to each time (ms)."""
    store = MemoryLogStore()
    for version in versions:
        file = store.put_commit(version, *commit_actions(version, (branches or {}).get(version, "a")))
        if touched:
            store.statuses[file.path] = replace(file, modification_time=file.modification_time + touched)
    return store


def table_log(store: LogStore) -> TableLog:
    return TableLog(store, LOG_PATH)


def store_versions(
    stored: StoredTable, log: TableLog, versions: Iterable[int], generation: str = GENERATION, **fields: Any
) -> None:
    """Store versions of a log, each with its identity."""
    listing, identity = log.builder.list_versions(0), None
    for version in versions:
        logged = log.range(version, version, listing)
        segment = logged.segment(version)
        facts = CommitFacts.of(logged.read_commits(version, version))
        file = segment.last_commit_file
        draft = replace(_manifest(stored, segment, generation), log_segment={"lastCommitFile": file and file.to_json()})
        complete = replace(facts.added_to(draft, identity, segment), **fields)
        identity = complete.identity
        stored.commit([complete])


def store_computed_versions(stored: StoredTable, log: TableLog, versions: Iterable[int]) -> None:
    """Store versions of a log, each with its identity and its computed state."""
    listing, identity = log.builder.list_versions(0), None
    for version in versions:
        logged = log.range(version, version, listing)
        segment = logged.segment(version)
        documents = VersionDocuments(None, {})
        state = DeltaLog.for_table(None, log.table_path).get_snapshot_at(version=version).computed_state
        manifest = documents.added_to(_manifest(stored, segment, GENERATION), state, segment)
        stored.write_documents(GENERATION, documents.new)
        manifest = CommitFacts.of(logged.read_commits(version, version)).added_to(manifest, identity, segment)
        identity = manifest.identity
        stored.commit([manifest])


def _manifest(stored: StoredTable, segment: LogSegment, generation: str) -> VersionManifest:
    return VersionManifest(
        table=stored.name,
        version=segment.version,
        generation=generation,
        table_id="table-id",
        log_path=segment.log_path,
        timestamp=segment.last_commit_timestamp,
        min_file_retention_timestamp=0,
        base=DataSet(first=segment.version, last=segment.version, files=()),
    )


def write_later_format(stored: StoredTable, name: ManifestName) -> None:
    """Replace a manifest with one of a later release."""
    stored.storage.write(stored.manifest_url(name), b'{"format":4}')


def compared(stored: StoredTable, store: LogStore, listing: LogListing | None = None) -> CommonVersion:
    """Return the last stored version that matches a log."""
    log = table_log(store)
    return find_common_version(stored, stored.stored_versions(), log, listing or log.builder.list_versions(0))
