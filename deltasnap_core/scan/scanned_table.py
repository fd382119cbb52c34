"""ScannedTable: the facts about one version of a table that a scan needs, for any source."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from deltasnap_core.errors import (
    CorruptLogError,
    DataFileNotFoundError,
    UnsupportedServerError,
    UnsupportedSettingError,
)
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.readable_schema import Place
from deltasnap_core.redaction import redacted
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.replay.spark.reading.table_schema import parse_schema, schema_of
from deltasnap_core.replay.spark.session.local_rows import no_rows
from deltasnap_core.replay.spark.session.spark_failures import spark_cause
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.files.data_paths import data_file_url
from deltasnap_core.scan.files.deletion_vectors import DeletionVectors
from deltasnap_core.scan.physical_schema import logical_schema
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.storage.log_store import LogStore

_REGEX_NAMES, _VARIABLES = "spark.sql.parser.quotedRegexColumnNames", "spark.sql.variable.substitute"
_SHIFTS_TIMES = "spark.sql.parquet.int96TimestampConversion"
_HAS_TIMES = re.compile(r'"(?:type|elementType|keyType|valueType)":"timestamp"')
_CASE = "spark.sql.caseSensitive"
_NULL_STRUCTS = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
_VARIABLE = re.compile(r"\$\{\S+?\}")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScannedTable:
    """One version of a table, for scans. Immutable.

    table_path:  URL of the folder that relative paths start from.
    version:     for errors; None: unknown.
    metadata:    the metadata to read rows with, see `metadata_to_read`.
    store:       reads deletion vectors.
    spark_files: makes the data files readable for Spark.
    is_checked:  whether the schema was checked, before columns were added that no table has.
    place:       the file of the log with the metadata, and the line; None: unknown.
    """

    sessions: SparkProvider
    table_path: str
    version: int | None
    metadata: Metadata
    store: LogStore
    spark_files: SparkFiles
    options: ScanOptions = field(default_factory=ScanOptions)
    is_checked: bool = False
    place: Place | None = None

    def url_of(self, path: str) -> str:
        """Return the URL of a data file. Errors: DataPathError."""
        return data_file_url(path, table_path=self.table_path, roots=self.options.data_roots)

    @property
    def vectors(self) -> DeletionVectors:
        """The reader of deletion vectors."""
        roots = self.options.data_roots
        return DeletionVectors(store=self.store, table_path=self.table_path, version=self.version, roots=roots)

    @property
    def spark(self) -> SparkSession:
        """The Spark session, which every scan needs."""
        return self.sessions.session("a scan of rows")

    @once
    def schema(self) -> StructType:
        """The schema of the table, as in the log. Errors: as `schema_of`."""
        if self.is_checked:
            return parse_schema(self.metadata.schema_string)
        return schema_of(self.metadata, table_path=self.table_path, version=self.version, place=self.place)

    @once
    def columns(self) -> TableColumns:
        """The columns, which can be looked up by all their names. Errors: as `schema`; UnsupportedSettingError."""
        _ = self.schema
        columns = TableColumns(self.metadata)
        if self._is_set(_REGEX_NAMES, "false"):
            _check_names(columns, lambda name: not _PLAIN_NAME.fullmatch(name), _REGEX_NAMES, "a regular expression")
        has_variables = "$" in (self.metadata.schema_string or "").replace("\\u0024", "$")
        if has_variables and self.replaces_variables:
            # The value would become part of results and errors.
            _check_names(columns, lambda name: _VARIABLE.search(name) is not None, _VARIABLES, "a variable")
        return columns

    @property
    def replaces_variables(self) -> bool:
        """Whether Spark replaces parts of a text, such as `${env:NAME}`, before it parses the text as SQL."""
        return self._is_set(_VARIABLES, "true")

    @once
    def no_rows(self) -> DataFrame:
        """An empty DataFrame with the columns of a scan.

        Errors: CorruptLogError if Spark refuses the schema, for example a type that its settings disable, such as TIME.
        """
        schema = logical_schema(self.schema)  # first: an error in it needs no session
        try:
            rows = no_rows(self.spark, schema)
            _ = rows.schema  # over Connect, Spark refuses it only now
        except AnalysisException as error:
            reason = f"metadata of version {self.version}: Spark cannot read rows of this schema: {spark_cause(error)}"
            raise CorruptLogError(path=self.table_path, reason=reason) from error
        return rows

    def check_settings(self) -> None:
        """Raise UnsupportedSettingError if a setting of the session may change the values of the rows.

        Spark may shift the timestamps that other writers wrote as INT96 by its time zone. Statistics and other readers
        have the times as written. It may not find columns that data files name in another case. And it may read a
        struct as null if a query needs only fields that a file lacks: Spark 4.0 always does, which is an
        UnsupportedServerError.
        """
        if self._is_set(_CASE, "false"):
            reason = "with it, Spark reads columns as null in data files that name them in another case"
            raise UnsupportedSettingError(setting=f"{_CASE}=true", reason=reason)
        schema = self.schema.json()
        if schema.count('"type":"struct"') > 1:  # one is the table itself
            reason = "Spark reads structs as null in data files that lack the requested fields"
            if self._is_set(_NULL_STRUCTS, "false"):
                raise UnsupportedSettingError(setting=f"{_NULL_STRUCTS}=true", reason=f"with it, {reason}")
            if (version := self.spark.version).startswith("4.0."):
                raise UnsupportedServerError(
                    server=f"Spark {version}", work="read rows with structs", reason=reason, needed="Spark 4.1 or later"
                )
        if self._is_set(_SHIFTS_TIMES, "false") and _HAS_TIMES.search(schema):
            reason = "with it, Spark shifts the timestamps of some data files by the time zone of the session"
            raise UnsupportedSettingError(setting=f"{_SHIFTS_TIMES}=true", reason=reason)

    def _is_set(self, setting: str, default: str) -> bool:
        return (self.sessions.setting(setting) or default).lower() == "true"

    def missing_file(self, path: str) -> DataFileNotFoundError:
        """Return the error for a data file that is gone."""
        return DataFileNotFoundError(path=redacted(path), table=redacted(self.table_path), version=self.version)


def _check_names(columns: TableColumns, is_refused: Callable[[str], bool], setting: str, read_as: str) -> None:
    """Raise UnsupportedSettingError for a column name that Spark reads in another way in SQL, even in quotes."""
    names = (name for leaf in columns.leaves for name in (*leaf.path, *leaf.physical_path))
    if refused := next(filter(is_refused, names), None):
        reason = f"with it, Spark reads the quoted column name {refused!r} as {read_as}"
        raise UnsupportedSettingError(setting=f"{setting}=true", reason=reason)
