"""What the assets of a run share: one Spark session, one snapshot store, one log a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property

from dagster_pyspark import LazyPySparkResource
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from deltasnap_assets.runs.partitions import contiguous
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.spark.connect_check import check_remote
from deltasnap_assets.spark.java import check_java
from deltasnap_assets.tables.file_facts import FileFacts, TombstoneFacts, file_facts, tombstone_facts
from deltasnap_core import deleted_file_retention_ms
from deltasnap_core.errors import StoredVersionNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.protocol.file_names import commit_file
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.manifest import VersionManifest
from deltasnap_core.store.snapshot_store import SnapshotStore

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how many versions of it are done, and how many there are."""


class RunSnapshots:
    """The Spark session, the snapshot store and the logs of the tables, each made on first use.

    One object serves one run: what was stored and read for one asset is not looked at again for the next.
    """

    def __init__(self, settings: Settings, pyspark: LazyPySparkResource) -> None:
        self._settings = settings
        self._pyspark = pyspark
        self._manifests: dict[tuple[str, int], VersionManifest] = {}
        self._states: dict[tuple[str, int], SnapshotState] = {}
        self._file_facts: dict[tuple[str, int], FileFacts] = {}
        self._tombstone_facts: dict[tuple[str, int], TombstoneFacts] = {}
        self._is_connected = False

    @property
    def spark(self) -> SparkSession:
        """The session of this process.

        Errors: `JavaError` where it cannot start for want of Java; `RemoteError` where nobody answers at `remote`.
        """
        if self._settings.spark.remote is not None and not self._is_connected:
            check_remote(self._settings.spark.remote)
            self._is_connected = True
        try:
            session: SparkSession = self._pyspark.spark_session
        except PySparkRuntimeError:
            check_java()
            raise
        return session

    @cached_property
    def store(self) -> SnapshotStore:
        """The store of the configuration."""
        return SnapshotStore.open(self.spark, self._settings.storage, self._settings.storage_options)

    @cached_property
    def small_store(self) -> SnapshotStore:
        """The same store without Spark: for all that is no DataFrame."""
        return SnapshotStore.open(None, self._settings.storage, self._settings.storage_options)

    def table(self, name: str) -> TableSettings:
        """The settings of a table."""
        return self._settings.table(name)

    def log(self, table: TableSettings) -> DeltaLog:
        """The log of a table."""
        return DeltaLog.for_table(self.spark, table.path, table.storage_options)

    def stored(self, table: TableSettings, versions: Sequence[int], progress: OnProgress) -> dict[int, VersionManifest]:
        """The manifests of versions, once all of them are stored; those that are not are written first.

        One pass for each range of versions without a gap. Errors: those of reading the log and of the store.
        """
        missing = [version for version in versions if (table.name, version) not in self._manifests]
        for first, last in contiguous(missing):
            for manifest in self.store.write_range(
                table.name,
                self.log(table),
                first,
                last,
                materialize_as=table.materialize_as,
                on_progress=progress,
            ):
                self._manifests[table.name, manifest.version] = manifest
        return {version: self._manifests[table.name, version] for version in versions}

    def computed_states(
        self, table: TableSettings, versions: Sequence[int], progress: OnProgress
    ) -> dict[int, SnapshotState]:
        """The computed states of versions; those that are not stored are stored first, see `stored`."""
        self.stored(table, versions, progress)
        for version in versions:
            if (table.name, version) not in self._states:
                self._states[table.name, version] = self.store.computed_state(table.name, version)
        return {version: self._states[table.name, version] for version in versions}

    def stored_state(self, table: TableSettings, version: int) -> SnapshotState | None:
        """Return the computed state of a version as it is stored; None: it is not."""
        if (table.name, version) not in self._states:
            try:
                self._states[table.name, version] = self.small_store.computed_state(table.name, version)
            except StoredVersionNotFoundError:
                return None
        return self._states[table.name, version]

    def file_facts(self, table: TableSettings, version: int) -> FileFacts:
        """Return what the live files of a stored version are like."""
        if (table.name, version) not in self._file_facts:
            self._file_facts[table.name, version] = file_facts(self.store.all_files(table.name, version))
        return self._file_facts[table.name, version]

    def tombstone_facts(self, table: TableSettings, version: int) -> TombstoneFacts:
        """Return what the tombstones of a stored version are like, as of now."""
        if (table.name, version) not in self._tombstone_facts:
            metadata = self.small_store.computed_state(table.name, version).metadata
            self._tombstone_facts[table.name, version] = tombstone_facts(
                self.store.tombstones(table.name, version),
                retention_ms=deleted_file_retention_ms({} if metadata is None else metadata.configuration),
                now_ms=time.time_ns() // 1_000_000,
            )
        return self._tombstone_facts[table.name, version]

    def log_segments(self, table: TableSettings, versions: Sequence[int]) -> dict[int, LogSegment]:
        """The log segments of versions, from the log, or from the store where the log has lost them since."""
        segments: dict[int, LogSegment] = {}
        for first, last in contiguous(versions):
            try:
                segments |= self.log(table).context.log.range(first, last).segments
            except (VersionNotFoundError, VersionGapError) as error:
                try:
                    segments |= {v: self.store.log_segment(table.name, v) for v in range(first, last + 1)}
                except StoredVersionNotFoundError:
                    raise error from None
        return segments

    def commit(self, table: TableSettings, version: int) -> FileStatus | None:
        """The commit file of a version; None: the log has lost it."""
        log = self.log(table)
        return log.context.log.store.status(join_url(log.path, commit_file(version)))
