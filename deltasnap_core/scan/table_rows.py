"""TableRows: rows of a table, or of one of its metadata tables, in the form that the caller wants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_core.errors import MissingPackageError
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.rules.rows_in_pandas import rows_in_pandas
from deltasnap_core.rules.texts.sql_text import quoted
from deltasnap_core.scan.collected_rows import collected_rows
from deltasnap_core.scan.scan import MOST_ROWS, Scan
from deltasnap_core.scan.table_version import TableVersion

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """Rows to read, in no order. Immutable: `select` and `limit` return other rows.

    The rows of a table (`Table.scan`) are read by Spark, which starts if there is no session. So are those of a
    metadata table, unless its method says that it needs no Spark: then only `to_spark` starts it.

    Types are those that deltalake returns, whatever the time zone of the session: a timestamp is `timestamp[us,
    tz=UTC]`, a timestampNtz `timestamp[us]`, a decimal `decimal128`. Every field is nullable.
    Errors of every member that reads: as `Scan.take`.

    version: the version that has the rows.
    source: a scan, or the rows themselves.
    most: the maximum number of rows; None: all.
    """

    version: TableVersion
    source: Scan | pa.Table | DataFrame
    most: int | None = None

    def select(self, *columns: str) -> TableRows:
        """Return the rows with these columns, in this order. In a scan, a column may be a field, as `address.city`.

        Errors: ValueError for an unknown column.
        """
        if isinstance(self.source, Scan):
            return replace(self, source=self.source.select(columns))
        known = self.source.schema.names
        for name in columns:
            if name not in known:
                raise ValueError(f"There is no column {name!r}; there are {', '.join(known)}")
        if isinstance(self.source, pa.Table):
            return replace(self, source=self.source.select(list(columns)))
        return replace(self, source=self.source.select(*map(quoted, columns)))

    def limit(self, count: int) -> TableRows:
        """Return at most `count` of the rows, any of them. Errors: ValueError for a negative count."""
        if count < 0:
            raise ValueError(f"Expected 0 rows or more, found {count}")
        return replace(self, most=count if self.most is None else min(count, self.most))

    def to_arrow(self) -> pa.Table:
        """Return the rows as a `pyarrow.Table`."""
        return _plain(self._in_arrow())

    def to_arrow_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a `pyarrow.RecordBatchReader`, an iterator of batches with one schema.

        Of a scan without a limit, only the rows of 256 MiB of data files, or of one file, are in memory at a time.
        """
        parts = map(_plain, self._parts())
        first = next(parts)
        batches = (batch for part in chain([first], parts) for batch in part.to_batches())
        return pa.RecordBatchReader.from_batches(first.schema, batches)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a `pandas.DataFrame`, as `rows_in_pandas`."""
        return rows_in_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a `polars.DataFrame`. Errors: MissingPackageError without the package polars."""
        polars = _package("polars", "to_polars")
        frame: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return frame

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of DuckDB. connection: None: DuckDB's default one.

        Errors: MissingPackageError without the package duckdb.
        """
        package = _package("duckdb", "to_duckdb")
        relation: duckdb.DuckDBPyRelation = (connection or package).from_arrow(self.to_arrow())
        return relation

    def to_spark(self) -> DataFrame:
        """Return the rows as a Spark DataFrame, which reads them when it runs. Starts Spark if there is no session."""
        match self.source:
            case Scan():
                rows = self.source.to_df()
            case pa.Table():
                rows = arrow_rows(self.version.scanned_table().spark, self.source)
            case _:
                rows = self.source
        return rows if self.most is None else rows.limit(min(self.most, MOST_ROWS))

    def count(self) -> int:
        """Return the number of rows.

        Of a scan without a predicate, it comes from the statistics, without Spark for up to 1.5 million files, if each
        file states its number of rows. With a predicate over partition columns only, Spark adds up these numbers. Both
        subtract deleted rows. Otherwise Spark reads the rows.
        """
        match self.source:
            case Scan(where=None):
                _ = self.version.schema  # rows of another one cannot be read
                stated = self.version.computed_state.num_live_records
                found = self.source.count() if stated is None else stated
            case Scan():
                found = self.source.count()
            case pa.Table():
                found = self.source.num_rows
            case _:
                with translated(*self.version.versions.version.read_files):
                    found = self.source.count()
        return found if self.most is None else min(found, self.most)

    def _parts(self) -> Iterator[pa.Table]:
        if isinstance(self.source, Scan) and self.most is None:
            return self.source.parts()
        return iter([self._in_arrow()])

    def _in_arrow(self) -> pa.Table:
        match self.source:
            case Scan():
                return self.source.to_arrow() if self.most is None else self.source.take(self.most)
            case pa.Table():
                return self.source.slice(0, self.count())
            case _:
                with translated(*self.version.versions.version.read_files):
                    return collected_rows(self.to_spark())


def _plain(rows: pa.Table) -> pa.Table:
    """Return rows with times in UTC and nullable fields. Otherwise, both depend on the session and on the files."""
    fields = [field.with_type(_plain_type(field.type)).with_nullable(True) for field in rows.schema]
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(rows.columns, fields, strict=True)
    ]
    found = pa.table(columns, schema=pa.schema(fields))
    return found if columns else rows  # without columns, it would lose their number


def _plain_type(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type)).with_nullable(True)


def _package(name: str, work: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingPackageError(package=name, work=work) from error
