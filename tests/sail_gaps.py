"""Does in the client what Sail lacks or does differently from Spark, so that quick tests run more code.

Sail reads a missing file as an empty one, does not check pages, and treats a required field as not null even if its
struct is null: `add.path is not null` is true for every row of a checkpoint whose writer declares `path` as required.
So it gets a checked copy of each file. It has no cache, no column `_metadata`, hints or observed measures, and may
write one partition as several files. The same tests run on Spark without this module: see the fixture `spark`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from deltasnap_core.log.checkpoints.checkpoint_pages import read_pages
from deltasnap_core.log.checkpoints.parquet_footer import footer_bytes, parsed_footer
from deltasnap_core.log.checkpoints.verified_parquet import UNREADABLE
from deltasnap_core.scan.files.data_paths import spark_name
from deltasnap_core.storage.urls import local_path, to_url

if TYPE_CHECKING:
    from pyspark.sql.connect.readwriter import DataFrameWriter

_OF_PARQUET = pa.struct([("file_path", pa.string()), ("row_index", pa.int64())])
_OF_TEXT = pa.struct([("file_name", pa.string()), ("file_block_start", pa.int64())])
_NAMES_FILES = re.compile(r"Parquet (?:argument )?error|ARROW:schema|Fail to merge schema|invalid utf-8")


@contextmanager
def filled_gaps() -> Iterator[None]:
    """Fill the gaps of sessions over Spark Connect, within the context."""
    from pyspark.sql.connect.catalog import Catalog
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter

    with ExitStack() as patched, tempfile.TemporaryDirectory(prefix="deltasnap-sail-") as copies:
        filled = (
            (DataFrameReader, "load", partialmethod(_loaded, DataFrameReader.load, Path(copies))),
            (SparkConnectClient, "_handle_error", partialmethod(_failed, SparkConnectClient._handle_error)),
            (Catalog, "cacheTable", lambda *_: None),
            (Catalog, "uncacheTable", lambda *_: None),
            (DataFrame, "metadataColumn", _metadata_column),
            (DataFrame, "hint", lambda rows, *_: rows),
            (DataFrame, "observe", _observed),
            (DataFrameWriter, "parquet", _written),
        )
        for kind, name, member in filled:
            patched.enter_context(patch.object(kind, name, member))
        yield


def _failed(client: Any, fail: Any, error: Exception, *given: Any, **named: Any) -> Any:
    """Raise an error of Sail; if it is about a file, as one of Spark."""
    try:
        return fail(client, error, *given, **named)
    except PySparkException as raised:
        if _NAMES_FILES.search(str(raised)):
            raise AnalysisException(f"[FAILED_READ_FILE.NO_HINT] {raised}", "FAILED_READ_FILE", {}) from raised
        raise


def _loaded(reader: Any, load: Any, copies: Path, path: Any = None, *given: Any, **named: Any) -> Any:
    """Return the rows of files, from copies that Sail reads as Spark reads the files."""
    kind, paths = named.get("format"), [path] if isinstance(path, str) else path
    if kind not in ("parquet", "text"):
        return load(reader, path, *given, **named)
    rows = load(reader, [_readable(url, kind, copies) for url in paths], *given, **named)
    rows._plan._files = paths
    return rows


def _readable(url: str, kind: str, copies: Path) -> str:
    """Return the URL of a hard link to a file, which remains if the file is deleted before Sail reads it."""
    file = Path(local_path(url))
    if not file.exists():
        raise AnalysisException(f"[PATH_NOT_FOUND] {url}", "PATH_NOT_FOUND", {"path": url})
    if file.is_dir():
        return url
    status = file.stat()
    facts = f"{file}\n{status.st_size}\n{status.st_mtime_ns}\n{status.st_ino}"
    copy = copies / hashlib.sha256(facts.encode()).hexdigest()[:32] / file.name
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True)
        if kind == "parquet":
            _check_pages(url, file)
        os.link(file.resolve(), copy)
        if kind == "parquet":
            _with_optional_fields(copy)
    return to_url(copy)


def _check_pages(url: str, file: Path) -> None:
    try:
        with file.open("rb") as stream:
            read_pages(stream)
    except UNREADABLE as error:
        text = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {url}. {error}"
        raise AnalysisException(text, "FAILED_READ_FILE.NO_HINT", {"path": url}) from error


def _with_optional_fields(file: Path) -> None:
    """Rewrite a file with optional fields if it has required ones. It gets a new inode: hard links stay as they are."""
    with file.open("rb") as stream:
        metadata = parsed_footer(footer_bytes(stream, file.stat().st_size))
    # Nanoseconds would overflow for years before 1677 and after 2262.
    parquet = pq.ParquetFile(file, metadata=metadata, coerce_int96_timestamp_unit="us")
    schema = parquet.schema_arrow
    optional = pa.schema([_optional(field) for field in schema], schema.metadata)
    if optional.equals(schema):
        return
    new = file.with_name(f".{file.name}")
    with pq.ParquetWriter(new, optional) as writer:
        for batch in parquet.iter_batches():
            writer.write_batch(batch.cast(optional))
    new.replace(file)


def _optional(field: pa.Field) -> pa.Field:
    return field.with_type(_optional_type(field.type)).with_nullable(True)


def _optional_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_optional(field) for field in kind])
    if pa.types.is_map(kind):  # the keys of a map are always required
        return pa.map_(kind.key_type, _optional(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_optional(kind.value_field))
    return kind


def _metadata_column(files: Any, name: str) -> Any:
    """Return the column with the file and the place of each row. Read the files for it, in this process."""
    from pyspark.sql.connect.plan import DataSource

    source = files._plan
    if isinstance(source, DataSource):
        paths = files._plan._files
        if source._format == "parquet":
            schema = to_arrow_schema(StructType.fromJson(json.loads(source._schema or "")))
            rows = [_rows(path, schema) for path in paths]
        else:
            rows = [_lines(path) for path in paths]
        files._plan = files.sparkSession.createDataFrame(pa.concat_tables(rows))._plan
        files._cached_schema = None
    return files._col(name)


def _lines(url: str) -> pa.Table:
    """Return the lines of a text file."""
    file = Path(local_path(url))
    lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    place = {"file_name": file.name, "file_block_start": 0}
    return pa.table([pa.array(lines), pa.array([place] * len(lines), _OF_TEXT)], ["value", "_metadata"])


def _rows(url: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file in the columns of a schema, found by name in any case. A missing column is null."""
    found = pq.ParquetFile(local_path(url)).read()
    by_name = {name.lower(): column for name, column in zip(found.column_names, found.columns, strict=True)}
    nothing = pa.nulls(found.num_rows)
    columns = [by_name.get(field.name.lower(), nothing).cast(field.type) for field in schema]
    places = [{"file_path": spark_name(url), "row_index": index} for index in range(found.num_rows)]
    return pa.table([*columns, pa.array(places, _OF_PARQUET)], [*schema.names, "_metadata"])


def _observed(rows: Any, observation: Any, *measures: Any) -> Any:
    """Return rows that were computed once, with their measures."""
    computed = rows.sparkSession.createDataFrame(rows.toArrow())
    observation._result = computed.agg(*measures).first().asDict()
    return computed


def _written(writer: DataFrameWriter, path: str) -> None:
    """Write rows as Parquet files; one partition becomes one file."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import Project, Repartition

    plan = writer._df
    while isinstance(plan, Project) and plan._child is not None:
        plan = plan._child
    if not (isinstance(plan, Repartition) and plan._num_partitions == 1):
        return writer.format("parquet").save(path)
    folder = Path(path.removeprefix("file://"))
    folder.mkdir(parents=True)
    pq.write_table(DataFrame(writer._df, writer._spark).toArrow(), folder / "part-0.parquet")
    return None
