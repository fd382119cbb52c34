"""Makes every field of a Parquet file optional, for a server that does not read a struct that is null as Spark does."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def with_optional_fields(file: Path) -> None:
    """Write a file again with optional fields if a struct in it has a required one; its rows stay the same.

    Sail takes a required field for not null where its struct is null: `add.path is not null` is true for every row of
    a checkpoint whose writer declares `path` as required in `add`.
    Only the name `file` gets new content: other links to the old content keep it.
    """
    # In nanoseconds, the years before 1677 and after 2262 would become others.
    parquet = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    schema = parquet.schema_arrow
    optional = pa.schema([_optional(field) for field in schema], schema.metadata)
    if optional.equals(schema):
        return
    handle, new = tempfile.mkstemp(dir=file.parent, prefix=".")
    os.close(handle)
    with pq.ParquetWriter(new, optional) as writer:
        for batch in parquet.iter_batches():
            writer.write_batch(batch.cast(optional))
    Path(new).replace(file)


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
