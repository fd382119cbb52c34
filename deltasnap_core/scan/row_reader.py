"""Reads the rows of data files with the columns of the table.

`file_lookup` finds the files, `parquet_rows` reads them, `row_joins` adds partition values, and removes deleted rows.
Files without a deletion vector are not part of that join. For the changes between versions, only chosen rows of a file
are read, and each row gets numbers of its file as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.redaction import redacted
from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.files.data_paths import plain_url
from deltasnap_core.scan.parquet_rows import parquet_rows
from deltasnap_core.scan.physical_schema import to_logical
from deltasnap_core.scan.row_joins import JoinOfListed, join_of_listed, typed_value, with_files, with_listed
from deltasnap_core.scan.scanned_table import ScannedTable


def read_rows(
    table: ScannedTable, files: Sequence[DataFile], pushed: Sequence[str] = (), *, tags: Sequence[str] = ()
) -> DataFrame:
    """Return the rows of files of one version: the columns of the table in schema order, then the tags.

    A file may be given several times, with different deletion vectors or tags: it is opened once, or twice if both
    chosen rows and all rows are read.

    pushed: conditions that Spark may push down into the files, as in Skipping.
    tags:   the names of columns (long) that follow those of the table: the tags of the row's file.
    Errors: as Scan.to_df; UnsupportedSettingError.
    """
    table.check_settings()  # also if no file is left: the statistics do not describe shifted times
    check_distinct(table, files)
    groups: dict[JoinOfListed | None, list[DataFile]] = {None: [], "left_anti": [], "left_semi": []}
    for file in files:
        groups[join_of_listed(file)].append(file)
    frames = [_rows(table, group, join, pushed, tags) for join, group in groups.items() if group]
    if not frames:
        return table.no_rows.select("*", *(F.lit(None).cast("long").alias(tag) for tag in tags))
    return reduce(DataFrame.unionAll, frames)


def check_distinct(table: ScannedTable, files: Sequence[DataFile]) -> None:
    """Raise CorruptLogError if two actions name one file: Spark would read it once or twice, as it plans."""
    seen: dict[object, DataFile] = {}
    for file in files:
        key = plain_url(file.url), file.vector and file.vector.unique_id, file.tags, file.only is None
        other = seen.setdefault(key, file)
        if other is not file:
            reason = f"version {table.version}: {other.path} and {file.path} name the same data file"
            raise CorruptLogError(path=redacted(table.table_path), reason=reason)


def _rows(
    table: ScannedTable,
    files: list[DataFile],
    join: JoinOfListed | None,
    pushed: Sequence[str],
    tags: Sequence[str],
) -> DataFrame:
    """Return the rows of files. join: `join_of_listed` of all of them."""
    rows = parquet_rows(table, list(dict.fromkeys(file.readable for file in files)), pushed)
    partitions = table.columns.partition
    texts = {column: [file.partition_values.get(column.physical_name) for file in files] for column in partitions}
    values = {column: typed_value(table, _literal(texts[column][0]), column) for column in partitions}
    numbers = [F.lit(number).cast("long") for number in files[0].tags]
    is_same = len({file.tags for file in files}) == 1 and len(set(zip(*texts.values(), strict=True))) <= 1
    if join is not None or not is_same:
        rows, values, numbers = with_files(table, rows, files, texts)
    if join is not None:
        rows = with_listed(table, rows, files, join)
    by_name = {column.name: value.alias(column.name) for column, value in values.items()}
    mode, shared = table.columns.mapping_mode, table.columns.with_shared_paths
    return rows.select(
        *(
            by_name[f.name] if f.name in by_name else to_logical(f, mode, shares_path=f.name in shared)
            for f in table.schema.fields
        ),
        *(value.alias(name) for name, value in zip(tags, numbers, strict=True)),
    )


def _literal(text: str | None) -> str:
    return "cast(null as string)" if text is None else string_sql(text)
