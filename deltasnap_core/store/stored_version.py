"""StoredVersion: the rows of one stored version, as DataFrames, in Arrow, or on the suitable engine for a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Never, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from deltasnap_core.errors import ActionNotFoundError, DeltaSnapError
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_features import metadata_to_read
from deltasnap_core.replay.engine import Question, ReplayEngine
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE, STATE
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.state_reconstruction import live_files, state_actions, unexpired_tombstones
from deltasnap_core.rules.file_actions import ADDS, REMOVES
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_documents import non_file_actions_of
from deltasnap_core.store.rows.driver_rows import DriverRows, selected_columns
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.versions.stored_table import StoredTable

FileKind = Literal["all_files", "tombstones"]
RowKind = Literal["all_files", "tombstones", "state"]
T = TypeVar("T")


@dataclass(frozen=True)
class StoredVersion:
    """Reads one stored version.

    spark_rows, driver_rows: the rows of its generation, for each engine.
    check_pages: read every page of a DataFrame before returning it.
    Errors: CorruptStoreError naming the file.
    """

    engine: ReplayEngine
    stored: StoredTable
    manifest: VersionManifest
    spark_rows: SparkRows
    driver_rows: DriverRows
    check_pages: bool

    @cached_property
    def computed_state(self) -> SnapshotState:
        """The computed state of the version."""
        return self.stored.computed_states([self.manifest])[self.manifest.version]

    @property
    def table_path(self) -> str:
        """URL of the table's folder."""
        return table_path(self.manifest.log_path)

    @property
    def metadata(self) -> Metadata:
        """The metadata to read rows with. Errors: ActionNotFoundError if the version was stored without metadata."""
        state = self.computed_state
        if state.metadata is None:
            raise ActionNotFoundError(action="metadata", version=self.manifest.version, path=self.table_path)
        return metadata_to_read(state.protocol, state.metadata)

    @property
    def files(self) -> list[str]:
        """URLs of the store's files for the version."""
        return [join_url(self.spark_rows.parquet.folder, file.path) for file in self.manifest.data_files]

    @property
    def read_files(self) -> tuple[Sequence[str], Sequence[str]]:
        """No file of a log, and `files`."""
        return (), self.files

    def without(self, error: DeltaSnapError) -> Never:
        """Raise the error: nothing replaces a file of the store."""
        raise error

    @property
    def all_files_with_stats(self) -> DataFrame:
        """The live files, with the columns of AddFile."""
        return self.all_files()

    def files_with(self, _: frozenset[StatisticPath]) -> DataFrame:
        """Return the live files for a query that runs now. The driver reads them if they are few."""
        return self.query("all_files", driver=self._as_frame, spark=lambda frame: frame)

    def state(self, retention: Retention) -> DataFrame:
        """Return the reconciled state as actions, with the tombstones that a retention keeps."""

        def frame() -> DataFrame:
            session = self.engine.sessions.session("a stored state as a DataFrame")
            return state_actions(session, self.spark_rows.state_of(self.manifest), self._non_file, retention)

        return self._checked(frame)

    def all_files(self) -> DataFrame:
        """Return the live files, with the columns of AddFile."""
        return self._checked(self._all_files)

    def base_files(self) -> DataFrame:
        """Return the live files of the version's base, with the columns of AddFile."""
        files = self.spark_rows.base_of(self.manifest)
        return self.spark_rows.parquet.no_rows(ADD) if files is None else live_files(files)

    def tombstones(self, retention: Retention | None = None) -> DataFrame:
        """Return the tombstones that a retention (None: the version's own) keeps, with the columns of RemoveFile."""
        return self._checked(lambda: self._tombstones(retention))

    def query(
        self,
        kind: FileKind,
        columns: Sequence[str] | None = None,
        *,
        driver: Callable[[pa.Table], T],
        spark: Callable[[DataFrame], T],
    ) -> T:
        """Return the result of a query over files or tombstones on the suitable engine.

        driver, spark: the query over the rows in Arrow, and over those in Spark. columns: the columns that it reads.
        """

        def in_driver() -> T:
            if kind == "all_files":
                return driver(self.driver_rows.all_files(self.manifest, columns))
            return driver(self.driver_rows.tombstones(self.manifest, self.manifest.retention, columns))

        def on_spark() -> T:
            frame = self._all_files() if kind == "all_files" else self._tombstones(None)
            return spark(frame if columns is None else frame.select(*columns))

        return self._answer(Question.ROWS, in_driver, on_spark)

    def count(
        self,
        files: Sequence[str],
        tombstones: Sequence[str],
        *,
        driver: Callable[[pa.Table, pa.Table], T],
        spark: Callable[[DataFrame, DataFrame], T],
    ) -> T:
        """Return the result of a query over files and tombstones: see SnapshotStore.count_files."""

        def in_driver() -> T:
            return driver(*self.driver_rows.files_and_tombstones(self.manifest, files, tombstones))

        def on_spark() -> T:
            return spark(self._all_files().select(*files), self._tombstones(None).select(*tombstones))

        return self._answer(Question.COUNT, in_driver, on_spark)

    def arrow(self, kind: RowKind, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows in Arrow, in any order: see SnapshotStore.read_arrow."""
        if kind == "state":
            return self._state_in_arrow().select(selected_columns(STATE.names, columns))
        schema = ADDS if kind == "all_files" else REMOVES
        columns = None if columns is None else selected_columns(schema.names, columns)
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        return self.query(kind, columns, driver=lambda rows: rows, spark=lambda rows: rows.toArrow().cast(wanted))

    def _answer(self, question: Question, driver: Callable[[], T], spark: Callable[[], T]) -> T:
        def on_spark(_: SparkSession) -> T:
            with translated(stored_files=self.files):
                return spark()

        size = self.manifest.rows
        work = f"{size:,} rows read"
        return self.engine.answer({question: size}, work=work, driver=driver, spark=on_spark).value

    @property
    def _non_file(self) -> NonFileActions:
        return non_file_actions_of(self.computed_state)

    def _checked(self, frame: Callable[[], DataFrame]) -> DataFrame:
        with translated(stored_files=self.files):
            found = frame()
            if self.check_pages:
                found.write.format("noop").mode("overwrite").save()
            return found

    def _as_frame(self, rows: pa.Table) -> DataFrame:
        return arrow_rows(self.engine.sessions.session("planning of a scan"), rows)

    def _all_files(self) -> DataFrame:
        if self.manifest.plain_parquet is not None:
            return self.spark_rows.parquet.read_file(self.manifest.plain_parquet.all_files, ADD)
        files = self.spark_rows.state_of(self.manifest)
        return self.spark_rows.parquet.no_rows(ADD) if files is None else live_files(files)

    def _tombstones(self, retention: Retention | None) -> DataFrame:
        if self.manifest.plain_parquet is not None and retention is None:
            return self.spark_rows.parquet.read_file(self.manifest.plain_parquet.tombstones, REMOVE)
        files = self.spark_rows.state_of(self.manifest)
        if files is None:
            return self.spark_rows.parquet.no_rows(REMOVE)
        return unexpired_tombstones(files, retention or self.manifest.retention)

    def _state_in_arrow(self) -> pa.Table:
        schema = to_arrow_schema(STATE)
        parts = [
            pa.table({"add": self.arrow("all_files").to_struct_array()}),
            pa.table({"remove": self.arrow("tombstones").to_struct_array()}),
            pa.Table.from_pylist(list(self._non_file.rows()), schema),
        ]
        columns = [pa.chunked_array([_column(part, field) for part in parts], field.type) for field in schema]
        return pa.table(columns, schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in rows.column_names:
        return pa.nulls(rows.num_rows, field.type)
    return rows[field.name].combine_chunks().cast(field.type)
