"""AskedFacts: facts about the files of stored versions, found in threads, each once."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from deltasnap_assets.checks.facts import FileFacts, TombstoneFacts
from deltasnap_assets.tables.file_facts import file_facts, tombstone_facts
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_core import deleted_file_retention_ms

_QUERIES_AT_ONCE = 2

_Key = tuple[str, int]


class AskedFacts:
    """Facts by table name and version. `ask` starts to find them, the other methods wait for them."""

    def __init__(self, versions: HeldVersions) -> None:
        self._versions = versions
        self._files: dict[_Key, Future[FileFacts]] = {}
        self._tombstones: dict[_Key, Future[TombstoneFacts]] = {}
        self._queries = ThreadPoolExecutor(_QUERIES_AT_ONCE, thread_name_prefix="deltasnap-query")

    def ask(self, table: str, version: int) -> None:
        """Start to find all facts about a stored version."""
        self._asked_files(table, version)
        self._asked_tombstones(table, version)

    def files(self, table: str, version: int) -> FileFacts:
        """Return facts about the live files of a stored version."""
        return self._asked_files(table, version).result()

    def tombstones(self, table: str, version: int) -> TombstoneFacts:
        """Return facts about the tombstones of a stored version, as of now."""
        return self._asked_tombstones(table, version).result()

    def close(self) -> None:
        """Stop what was started."""
        self._queries.shutdown(cancel_futures=True)

    def _asked_files(self, table: str, version: int) -> Future[FileFacts]:
        if (table, version) not in self._files:
            self._files[table, version] = self._queries.submit(self._find_files, table, version)
        return self._files[table, version]

    def _asked_tombstones(self, table: str, version: int) -> Future[TombstoneFacts]:
        if (table, version) not in self._tombstones:
            self._tombstones[table, version] = self._queries.submit(self._find_tombstones, table, version)
        return self._tombstones[table, version]

    def _find_files(self, table: str, version: int) -> FileFacts:
        manifest = self._versions.manifests(table, [version])[version]
        return file_facts(self._versions.store, table, manifest)

    def _find_tombstones(self, table: str, version: int) -> TombstoneFacts:
        metadata = self._versions.states(table, [version])[version].metadata
        retention_ms = deleted_file_retention_ms({} if metadata is None else metadata.configuration)
        manifest, now_ms = self._versions.manifests(table, [version])[version], time.time_ns() // 1_000_000
        return tombstone_facts(self._versions.store, table, manifest, retention_ms=retention_ms, now_ms=now_ms)
