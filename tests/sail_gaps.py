"""Does in the client what Sail lacks, so that quick tests run more code.

Sail has no column `_metadata`, hints or observed measures, and may write one partition as several files. The same tests
run on Spark without this module: see the fixture `spark`. The app on Sail does without it: see `tests/sail`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from deltasnap_core.scan.files.data_paths import spark_name

if TYPE_CHECKING:
    from pyspark.sql.connect.readwriter import DataFrameWriter

_METADATA = pa.struct([("file_path", pa.string()), ("row_index", pa.int64())])


@contextmanager
def filled_gaps() -> Iterator[None]:
    """Fill the gaps of sessions over Spark Connect, within the context."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.readwriter import DataFrameWriter

    with (
        patch.object(DataFrame, "metadataColumn", _metadata_column),
        patch.object(DataFrame, "hint", lambda rows, *_: rows),
        patch.object(DataFrame, "observe", _observed),
        patch.object(DataFrameWriter, "parquet", _written),
    ):
        yield


def _metadata_column(files: Any, name: str) -> Any:
    """Return the column of Parquet files with the file and the index of each row. Read the files for it, with Arrow."""
    from pyspark.sql.connect.plan import DataSource

    source = files._plan
    if isinstance(source, DataSource):
        if source._format != "parquet":
            raise UnsupportedOperationException("No metadata columns of text.")
        schema = to_arrow_schema(StructType.fromJson(json.loads(source._schema or "")))
        rows = [_rows(path, schema) for path in source._paths or ()]
        files._plan = files.sparkSession.createDataFrame(pa.concat_tables(rows))._plan
        files._cached_schema = None
    return files._col(name)


def _rows(url: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file in the columns of a schema, found by name in any case. A missing column is null."""
    path = url.removeprefix("file://")
    if not Path(path).exists():
        raise AnalysisException(f"[PATH_NOT_FOUND] {url}", "PATH_NOT_FOUND", {"path": url})
    found = pq.ParquetFile(path).read()
    by_name = {name.lower(): column for name, column in zip(found.column_names, found.columns, strict=True)}
    nothing = pa.nulls(found.num_rows)
    columns = [by_name.get(field.name.lower(), nothing).cast(field.type) for field in schema]
    places = [{"file_path": spark_name(url), "row_index": index} for index in range(found.num_rows)]
    return pa.table([*columns, pa.array(places, _METADATA)], [*schema.names, "_metadata"])


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
