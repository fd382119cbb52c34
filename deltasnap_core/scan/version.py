"""Version: one version of a table, from its log or from a store. All that reads a table reads only this.

`ReplayedVersion` (`snapshot/replayed_version.py`) and `StoredVersion` (`store/stored_version.py`) are the two makers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol import actions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.readable_schema import Place
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.replay.engine import Answer
from deltasnap_core.replay.fallback import Readable
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.rules.file_actions import ADDS
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.storage.log_store import FileStatus

Rows: TypeAlias = pa.Table | DataFrame
"""The rows of a query that runs now: in Arrow if the driver read them, otherwise in Spark."""

LIVE_FILE_COLUMNS = ("path", "partitionValues", "size", "modificationTime", "dataChange", "deletionVector")
"""The columns of AddFile that a lookup reads."""

FILES_IN_PIECE = 50_000

ChangeData: TypeAlias = Sequence[tuple[str, int, int]]
"""Files of change data: the path as in the log, and version and time (ms) of the commit."""

ReadFiles: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""URLs of files of a log, and of a store."""


class VersionFacts(Protocol):
    """What a version states besides its files. Errors of any member: ActionNotFoundError, CorruptLogError."""

    @property
    def protocol(self) -> actions.Protocol:
        """The protocol."""

    @property
    def metadata(self) -> actions.Metadata:
        """The metadata."""

    @property
    def place_of_metadata(self) -> Place | None:
        """The file of the log with the metadata, and the line; None: unknown."""

    @property
    def timestamp(self) -> int:
        """When the version was committed (ms)."""

    @property
    def set_transactions(self) -> tuple[actions.SetTransaction, ...]:
        """The newest transaction of each application that has not expired, ordered by application id."""

    @property
    def domains(self) -> dict[str, str]:
        """The configuration of each domain that is not removed, by domain name."""


class Files(Readable, Protocol):
    """Files that a scan selects from: those of a version, or some of them. Immutable."""

    @property
    def read_files(self) -> ReadFiles:
        """The files that Spark reads for them: an error names one of them."""

    @property
    def all_files_with_stats(self) -> DataFrame:
        """The files as a DataFrame for the caller, with the columns of AddFile and their statistics."""

    def files(self, columns: Sequence[str] | None = None, *, skipping: frozenset[StatisticPath] = frozenset()) -> Rows:
        """Return the files for a query that runs now. The driver reads them if they are few.

        columns:  of AddFile; None: all.
        skipping: the statistics that the query reads. Spark may add them as PARSED (see `chosen_files`).
        """


class Version(Files, Protocol):
    """One version of a table. Immutable; each part is computed on first use, on the suitable engine.

    A query that meets damage continues with another value of the same version: see `Fallback`.
    """

    @property
    def number(self) -> int:
        """The version."""

    @property
    def log_path(self) -> str:
        """URL of the `_delta_log` folder."""

    @property
    def segment(self) -> LogSegment:
        """The log files of the version."""

    @property
    def facts(self) -> VersionFacts:
        """What the version states besides its files."""

    @property
    def now_ms(self) -> int:
        """When the version was opened (ms), for expiry."""

    @property
    def retention(self) -> Retention:
        """Which tombstones the version has."""

    def scanned(self, options: ScanOptions | None = None) -> ScannedTable:
        """Return the facts about the version that a scan needs."""

    def state(self) -> Answer[SnapshotState]:
        """Return the computed state."""

    def files_in_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the live files in Arrow, in pieces that the driver can hold. columns: of AddFile, with `path`."""

    def changed_files(self, since: int, columns: Sequence[str]) -> tuple[Rows, Rows] | None:
        """Return the live files of an earlier version and of this one, of those files that changed between them.

        columns: of AddFile. None: all files may have changed, or so many that reading all takes no longer.
        """

    def file_actions(self) -> DataFrame | None:
        """Return the reconciled file actions (FULL), including expired tombstones; None: there are none."""

    @property
    def actions(self) -> DataFrame:
        """The reconciled state as actions, for the caller: see `Snapshot.state`."""

    @property
    def all_files(self) -> DataFrame:
        """The live files as a DataFrame for the caller. They may have no statistics: see SnapshotOptions."""

    def tombstones(self, retention: Retention | None = None) -> DataFrame:
        """Return the tombstones that a retention (None: the version's) keeps, with the columns of RemoveFile."""

    def live_files(self, wanted: pa.StringArray) -> pa.Table:
        """Return the live files (LIVE_FILE_COLUMNS) with the wanted path keys, see `path_keys`."""

    def commits(self, first: int = 0) -> list[DeltaHistory]:
        """Return the commits from a version up to this one that still exist, newest first."""

    def events(self) -> DataFrame | None:
        """Return the file actions of commits, with the columns version, path, add, remove; None: there are none."""

    def file_history(self) -> FileHistory:
        """Return the changes of the files up to the version, from the earliest version that is known."""

    def known_versions(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows of `versions_table`: the versions of the log, or of the store."""

    def log_files(self) -> Iterable[FileStatus]:
        """Return the files of the log."""

    def referenced_files(self, *, every_commit: bool) -> ReferencedFiles:
        """Return the files that other versions in the log reference, including later ones.

        every_commit: also the files that each commit names.
        """


def arrow_of(rows: Rows) -> pa.Table:
    """Return rows in Arrow, with the types of AddFile. rows: some of its columns."""
    if isinstance(rows, pa.Table):
        return rows
    return rows.toArrow().cast(pa.schema([ADDS.field(name) for name in rows.columns]))


def in_pieces(rows: Rows) -> Iterator[pa.Table]:
    """Yield rows with `path` in Arrow, in pieces. Spark computes them again for each."""
    number = 1 if isinstance(rows, pa.Table) else -(-rows.count() // FILES_IN_PIECE)
    for piece in range(number):
        yield arrow_of(rows if number == 1 else rows.where(f"pmod(xxhash64(path), {number}) = {piece}"))


def frame_of(rows: Rows, table: ScannedTable) -> DataFrame:
    """Return rows as a DataFrame."""
    return arrow_rows(table.sessions.session("planning of a scan"), rows) if isinstance(rows, pa.Table) else rows


def rows_in_arrow(version: Version, columns: Sequence[str] = tuple(ADDS.names)) -> pa.Table:
    """Return the live files of a version in Arrow, in any order. columns: of AddFile."""
    rows = version.files(columns)
    with translated(*version.read_files):
        return arrow_of(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHistory:
    """The live files of a version, with the columns of AddFile, and the changes of every later commit.

    version: of the files. Those of version 0 were added by its commit; of others, the commit is unknown.
    events: as `Version.events`; None: nothing.
    """

    version: int
    files: DataFrame
    events: DataFrame | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencedFiles:
    """The files that a log references.

    files, tombstones: DataFrames with the columns of AddFile and of RemoveFile, each of one version or of several.
    unread: why a part of the log was not read; None: all of it was.
    retention_ms: how long the newest version keeps a tombstone; 0: unknown.
    """

    files: Sequence[DataFrame]
    tombstones: Sequence[DataFrame]
    change_data: ChangeData = ()
    unread: str | None
    retention_ms: int = 0
