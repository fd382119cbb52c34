"""FactQueries: facts about the files of stored versions, found in threads, each once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from deltasnap_assets.checks.facts import FileFacts, TombstoneFacts
from deltasnap_assets.tables.file_facts import file_facts, may_have_vectors, tombstone_facts
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_core import deleted_file_retention_ms, system_clock

_QUERIES_AT_ONCE = 2
_REPORT_SECONDS = 5

OnProgress = Callable[[str, int, int], None]
"""Called with the current activity, the number of versions that are done, and the number of all versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFileFacts:
    """Facts about the live files of a stored version, and about its tombstones as of now."""

    files: FileFacts
    tombstones: TombstoneFacts


class FactQueries:
    """Facts by table name and version. `start` starts a query, `of` waits for its result."""

    def __init__(self, versions: HeldVersions) -> None:
        self._versions = versions
        self._found: dict[tuple[str, int], Future[VersionFileFacts]] = {}
        self._queries = ThreadPoolExecutor(_QUERIES_AT_ONCE, thread_name_prefix="deltasnap-query")

    def start(self, table: str, version: int) -> Future[VersionFileFacts]:
        """Start the query for the facts about a stored version, unless it was started before."""
        if (table, version) not in self._found:
            self._found[table, version] = self._queries.submit(self._find, table, version)
        return self._found[table, version]

    def of(self, table: str, version: int, on_progress: OnProgress | None = None) -> VersionFileFacts:
        """Return the facts about a stored version. on_progress: called while its files are counted."""
        query, start = self.start(table, version), time.monotonic()
        if on_progress is not None:
            while not wait([query], _REPORT_SECONDS).done:
                seconds = time.monotonic() - start
                message = f"Counting the files of version {version} by size and partition, for {seconds:.0f} s"
                on_progress(f"{message}; later versions update the result", 0, 1)
        return query.result()

    def close(self) -> None:
        """Stop the queries."""
        self._queries.shutdown(cancel_futures=True)

    def _find(self, table: str, version: int) -> VersionFileFacts:
        store = self._versions.store
        manifest = self._versions.manifests(table, [version])[version]
        state = self._versions.states(table, [version])[version]
        breakdown = store.file_breakdown(table, manifest)
        return VersionFileFacts(
            files=file_facts(breakdown),
            tombstones=tombstone_facts(
                store,
                table,
                manifest,
                breakdown,
                retention_ms=deleted_file_retention_ms({} if state.metadata is None else state.metadata.configuration),
                now_ms=system_clock(),
                has_vectors=may_have_vectors(state),
            ),
        )
