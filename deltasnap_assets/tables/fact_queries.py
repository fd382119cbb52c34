"""FactQueries: facts about the files of stored tables, found in threads, each once.

A pass over the files of a large version takes seconds. So it is due at most once an hour, or where a base is written.
In between, the facts are those of an earlier version, as recorded in the last poll of the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from deltasnap_assets.checks.facts import CountedFiles
from deltasnap_assets.quantities import HOUR_MS
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.file_facts import count_files
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_core import VersionManifest
from deltasnap_core.errors import StorageError
from deltasnap_core.support import system_clock

MANY_ROWS = 50_000
"""Up to this many files and tombstones, each run examines all of them, which takes a fraction of a second."""

_QUERIES_AT_ONCE = 2
_REPORT_SECONDS = 5

OnProgress = Callable[[str, int, int], None]
"""Called with the current activity, the number of versions that are done, and the number of all versions."""


def is_count_due(known: CountedFiles | None, manifest: VersionManifest, now_ms: int) -> bool:
    """Return whether to count the files of a stored version with many. known: the recorded facts; None: none are."""
    if known is None or known.generation != manifest.generation:
        return True
    if not manifest.base.last <= known.version <= manifest.version:
        return True
    return known.version < manifest.version and abs(now_ms - known.counted_at_ms) >= HOUR_MS


class FactQueries:
    """Facts about the newest stored version of each table. `start` starts a query, `of` waits for its result."""

    def __init__(self, versions: HeldVersions, *, many_rows: int = MANY_ROWS) -> None:
        """many_rows: up to this many files and tombstones, they are always counted."""
        self._versions = versions
        self._many_rows = many_rows
        self._found: dict[tuple[str, int], Future[CountedFiles]] = {}
        self._queries = ThreadPoolExecutor(_QUERIES_AT_ONCE, thread_name_prefix="deltasnap-query")

    def start(self, table: TableSettings) -> Future[CountedFiles]:
        """Start the query for the facts about a table, unless it was started before for its newest stored version."""
        version = max(self._versions.names(table.name))
        if (table.name, version) not in self._found:
            self._found[table.name, version] = self._queries.submit(self._find, table, version)
        return self._found[table.name, version]

    def of(self, table: TableSettings, on_progress: OnProgress | None = None) -> CountedFiles:
        """Return the facts about a table. on_progress: called while its files are counted."""
        query, start = self.start(table), time.monotonic()
        if on_progress is not None:
            while not wait([query], _REPORT_SECONDS).done:
                seconds = time.monotonic() - start
                on_progress(f"Counting the files of table {table.name} by partition, for {seconds:.0f} s", 0, 1)
        try:
            return query.result()
        except StorageError:  # the step may be retried in this process
            self._found = {key: found for key, found in self._found.items() if found is not query}
            raise

    def close(self) -> None:
        """Stop the queries."""
        self._queries.shutdown(cancel_futures=True)

    def _find(self, table: TableSettings, version: int) -> CountedFiles:
        store, now_ms = self._versions.store, system_clock()
        manifest = self._versions.manifests(table.name, [version])[version]
        are_many, poll = manifest.rows > self._many_rows, store.polls.read(table.name)
        recorded = None if poll is None else poll.counted_files
        known = CountedFiles.from_json(recorded)
        if known is not None and are_many and not is_count_due(known, manifest, now_ms):
            return known
        state = self._versions.states(table.name, [version])[version]
        counted = count_files(store, table.name, manifest, state, now_ms)
        if are_many or recorded is not None:
            record(store, table, PollFindings(counted_files=counted.to_json()), self._versions.names(table.name))
        return counted
