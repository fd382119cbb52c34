"""Makes every field of a Parquet file optional, for servers that read null structs differently from Spark."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.log.checkpoints.parquet_footer import footer_bytes, parsed_footer


def with_optional_fields(file: Path) -> None:
    """Rewrite a file with optional fields if it has required ones. Its rows stay the same.

    Sail treats a required field as not null even if its struct is null: `add.path is not null` is true for every row of
    a checkpoint whose writer declares `path` as required in `add`.
    The file gets a new inode: other hard links keep the old content.
    """
    with file.open("rb") as stream:
        metadata = parsed_footer(footer_bytes(stream, file.stat().st_size))
    # Nanoseconds would overflow for years before 1677 and after 2262.
    parquet = pq.ParquetFile(file, metadata=metadata, coerce_int96_timestamp_unit="us")
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
