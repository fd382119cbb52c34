"""Looks up the data files of actions, checked before Spark reads them.

Source: PROTOCOL.md, Partition Value Serialization; Deletion Vectors; Add File and Remove File.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_core.errors import CorruptLogError, DataPathError
from deltasnap_core.protocol.actions import DeletionVectorDescriptor
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.rules.file_actions import values_of, vector_id_sql
from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.rules.totals.num_records import num_records_sql
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.files.data_paths import plain_url
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import is_malformed, misspelled_key
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import is_hidden, is_local, local_path

_log = logger_of(__name__)

_COLUMNS = ("path", "partitionValues", "size", "modificationTime", "deletionVector")
_RECORDS = ("path", f"{vector_id_sql('deletionVector')} as vector", f"{num_records_sql('stats')} as records")
_NONE = "null"


def files_to_read(table: ScannedTable, files: DataFrame) -> list[DataFile]:
    """Return the data files to read, from files with the columns of AddFile.

    Runs one Spark job, and for files with a deletion vector another one, which reads their statistics.
    Errors: as Scan.to_df.
    """
    found = values_of(files.selectExpr(*_COLUMNS, f"{_malformed(table)} as malformed").toArrow())
    if any(add["deletionVector"] for add in found):
        stated = files.where("deletionVector is not null").selectExpr(*_RECORDS).toArrow().to_pylist()
        records = {(row["path"], row["vector"]): row["records"] for row in stated}
        return [replace(file, records=records.get(file.key)) for file in _data_files(table, found)]
    return _data_files(table, found)


def data_files(table: ScannedTable, files: Sequence[Mapping[str, Any]]) -> list[DataFile]:
    """Return the data files to read, in order, from rows with the columns of AddFile.

    Spark checks only typed partition values. Errors: as Scan.to_df.
    """
    malformed: Sequence[str | None] = [None] * len(files)
    if files and _malformed(table) != _NONE:
        values = [list((file["partitionValues"] or {}).items()) for file in files]
        texts = pa.array(values, pa.map_(pa.string(), pa.string()))
        numbered = {"number": pa.array(range(len(files)), pa.int64()), "partitionValues": texts}
        frame = arrow_rows(table.spark, pa.table(numbered))
        found = frame.selectExpr("number", f"{_malformed(table)} as malformed").toArrow().to_pylist()
        malformed = [row["malformed"] for row in sorted(found, key=lambda row: row["number"])]
    return _data_files(table, [{**file, "malformed": name} for file, name in zip(files, malformed, strict=True)])


def _data_files(table: ScannedTable, adds: Sequence[Mapping[str, Any]]) -> list[DataFile]:
    urls = [_checked(table, add) for add in adds]
    statuses = [
        FileStatus(path=url, size=add["size"] or 0, modification_time=add["modificationTime"] or 0)
        for url, add in zip(urls, adds, strict=True)
    ]
    return [
        DataFile(
            path=add["path"],
            url=url,
            readable=readable,
            partition_values=add["partitionValues"] or {},
            vector=add["deletionVector"] and _vector(table, url, add["deletionVector"]),
            size=add["size"] or 0,
        )
        for url, readable, add in zip(urls, _readable(table, statuses), adds, strict=True)
    ]


def warn_of_repeated(table: ScannedTable, files: Sequence[DataFile]) -> None:
    """Log a warning if the files of one version have a data file several times, with different deletion vectors.

    The protocol forbids this. Each one counts as a separate file in all results, as in Delta.
    Source: PROTOCOL.md, Add File and Remove File.
    """
    if all(file.vector is None for file in files):
        return
    counts = Counter(plain_url(file.url) for file in files)
    repeated = [url for url, count in counts.items() if count > 1]
    if repeated:
        _log.warning(
            "Version %s of %s has %d data files several times, with different deletion vectors, so their rows are "
            "repeated. The first is %s", table.version, redacted(table.table_path), len(repeated),
            redacted(repeated[0]),
        )  # fmt: skip


def _vector(table: ScannedTable, url: str, values: object) -> DeletionVectorDescriptor:
    try:
        return DeletionVectorDescriptor.from_json(values)
    except ValueError as error:
        path, reason = redacted(table.table_path), f"the deletion vector of {redacted(url)}: {error}"
        raise CorruptLogError(path=path, reason=reason) from error


def _malformed(table: ScannedTable) -> str:
    """Return SQL for the name of the partition column with an invalid value; null: none."""
    tests = ((column, is_malformed(column)) for column in table.columns.partition)
    cases = [f"when {test} then {string_sql(column.name)}" for column, test in tests if test is not None]
    return f"case {' '.join(cases)} end" if cases else _NONE


def _checked(table: ScannedTable, add: Mapping[str, Any]) -> str:
    path = add["path"]
    if (problem := _problem_of_values(table, add)) is not None:
        raise CorruptLogError(path=redacted(table.table_path), reason=f"version {table.version}, file {path}{problem}")
    url = table.url_of(path)
    if (reason := _why_not_read(url)) is not None:
        raise DataPathError(path=path, table=redacted(table.table_path), reason=reason)
    return url


def _problem_of_values(table: ScannedTable, add: Mapping[str, Any]) -> str | None:
    values, malformed = add["partitionValues"], add["malformed"]
    for column in table.columns.partition:
        if values is None:
            return ": expected partitionValues, found null"
        if (key := misspelled_key(column, values)) is not None:
            return f", partition column {column.name}: expected the key {column.physical_name!r}, found {key!r}"
        if column.name == malformed:
            value = values[column.physical_name]
            return f", partition column {column.name}: expected a value of type {column.data_type}, found {value!r}"
    return None


def _readable(table: ScannedTable, files: Sequence[FileStatus]) -> list[str]:
    try:
        return table.spark_files.readable(files)
    except FileNotFoundError as error:
        raise table.missing_file(str(error)) from error


def _why_not_read(url: str) -> str | None:
    """Return why Spark would read no file, or other files, for the URL of a data file; None: it reads that file."""
    # Whether an object store has files below a name is not known without a request for each file.
    is_folder = url.endswith("/") or (is_local(url) and os.path.isdir(local_path(url)))  # noqa: PTH112 - a third of the time
    if is_folder:
        return "it is a folder, and Spark reads all files in a folder"
    return "Spark skips files with such a name" if is_hidden(url) else None
