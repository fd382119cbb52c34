"""RowReader: the rows of data files with the columns of the table.

`FileLookup` finds the files, `parquet_rows` reads them, and `RowJoins` adds partition values, and removes deleted rows.
Files without a deletion vector are not part of that join. For the changes between versions, only chosen rows of a file
are read, and each row gets numbers of its file as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.redaction import redacted
from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.files.data_paths import plain_url
from deltasnap_core.scan.parquet_rows import parquet_rows
from deltasnap_core.scan.physical_schema import to_logical
from deltasnap_core.scan.row_joins import ListedRows, RowJoins, rows_listed, typed_value
from deltasnap_core.scan.scanned_table import ScannedTable


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of files of one version of a table.

    A file may be given several times, with different deletion vectors or tags: it is opened once, or twice if both
    chosen rows and all rows are read.
    """

    table: ScannedTable
    pushed: Sequence[str] = ()
    """Conditions that Spark may push down into the files, as in Skipping."""

    tags: Sequence[str] = ()
    """The names of columns (long) that follow those of the table: the tags of the row's file."""

    def read(self, found: Sequence[DataFile]) -> DataFrame:
        """Return the rows of files: the columns of the table in schema order, then the tags.

        Errors: as Scan.to_df; UnsupportedSettingError.
        """
        self.table.check_settings()  # also if no file is left: the statistics do not describe shifted times
        self.check_distinct(found)
        groups: dict[ListedRows | None, list[DataFile]] = {None: [], **{listed: [] for listed in ListedRows}}
        for file in found:
            groups[rows_listed(file)].append(file)
        frames = [self._rows(group, listed) for listed, group in groups.items() if group]
        if not frames:
            nothing = self.table.no_rows
            return nothing.select("*", *(F.lit(None).cast("long").alias(tag) for tag in self.tags))
        return reduce(DataFrame.unionAll, frames)

    def check_distinct(self, files: Sequence[DataFile]) -> None:
        """Raise CorruptLogError if two actions name one file: Spark would read it once or twice, as it plans."""
        seen: dict[object, DataFile] = {}
        for file in files:
            key = plain_url(file.url), file.vector and file.vector.unique_id, file.tags, file.only is None
            other = seen.setdefault(key, file)
            if other is not file:
                raise CorruptLogError(
                    path=redacted(self.table.table_path),
                    reason=f"version {self.table.version}: {other.path} and {file.path} name the same data file",
                )

    def _rows(self, files: list[DataFile], listed: ListedRows | None) -> DataFrame:
        """Return the rows of files. listed: what the listed rows of all of them are; None: no rows are listed."""
        rows = parquet_rows(self.table, list(dict.fromkeys(file.readable for file in files)), self.pushed)
        partitions = self.table.columns.partition
        texts = {column: [file.partition_values.get(column.physical_name) for file in files] for column in partitions}
        values = {column: typed_value(self.table, _literal(texts[column][0]), column) for column in partitions}
        tags = [F.lit(number).cast("long") for number in files[0].tags]
        is_same = len({file.tags for file in files}) == 1 and len(set(zip(*texts.values(), strict=True))) <= 1
        if listed is not None or not is_same:
            joins = RowJoins(self.table, files)
            rows, values, tags = joins.with_files(rows, texts)
            if listed is not None:
                rows = joins.of_listed(rows, listed)
        by_name = {column.name: value.alias(column.name) for column, value in values.items()}
        mode, shared = self.table.columns.mapping_mode, self.table.columns.with_shared_paths
        fields = self.table.schema.fields
        return rows.select(
            *(
                by_name[f.name] if f.name in by_name else to_logical(f, mode, shares_path=f.name in shared)
                for f in fields
            ),
            *(value.alias(name) for name, value in zip(self.tags, tags, strict=True)),
        )


def _literal(text: str | None) -> str:
    return "cast(null as string)" if text is None else string_sql(text)
