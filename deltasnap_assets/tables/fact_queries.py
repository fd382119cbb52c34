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

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    files: FileFacts
    tombstones: TombstoneFacts


class FactQueries:
    """Facts by table name and version. `start` starts the queries, the other methods wait for the results."""

    def __init__(self, versions: HeldVersions) -> None:
        self._versions = versions
        self._found: dict[_Key, Future[_Facts]] = {}
        self._queries = ThreadPoolExecutor(_QUERIES_AT_ONCE, thread_name_prefix="deltasnap-query")

    def start(self, table: str, version: int) -> None:
        """Start the queries for all facts about a stored version."""
        self._started(table, version)

    def files(self, table: str, version: int, on_progress: OnProgress | None = None) -> FileFacts:
        """Return facts about the live files of a stored version. on_progress: called while the files are counted."""
        return self._waited_for(table, version, on_progress).files

    def tombstones(self, table: str, version: int, on_progress: OnProgress | None = None) -> TombstoneFacts:
        """Return facts about the tombstones of a stored version, as of now. on_progress: as for `files`."""
        return self._waited_for(table, version, on_progress).tombstones

    def close(self) -> None:
        """Stop the queries."""
        self._queries.shutdown(cancel_futures=True)

    def _started(self, table: str, version: int) -> Future[_Facts]:
        if (table, version) not in self._found:
            self._found[table, version] = self._queries.submit(self._find, table, version)
        return self._found[table, version]

    def _waited_for(self, table: str, version: int, on_progress: OnProgress | None) -> _Facts:
        query, start = self._started(table, version), time.monotonic()
        if on_progress is not None:
            while not wait([query], _REPORT_SECONDS).done:
                seconds = time.monotonic() - start
                message = f"Counting the files of version {version} by size and partition, for {seconds:.0f} s"
                on_progress(f"{message}; later versions update the result", 0, 1)
        return query.result()

    def _find(self, table: str, version: int) -> _Facts:
        store = self._versions.store
        manifest = self._versions.manifests(table, [version])[version]
        state = self._versions.states(table, [version])[version]
        breakdown = store.file_breakdown(table, manifest)
        return _Facts(
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
