"""Parquet files whose required fields become optional; without Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.replay.spark.reading.optional_fields import with_optional_fields

INNER = pa.struct([pa.field("path", pa.string(), nullable=False), pa.field("size", pa.int64())])
REQUIRED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("add", INNER),
        pa.field("tags", pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))),
        pa.field("parts", pa.list_(pa.field("element", INNER, nullable=False))),
    ],
    {"made": "by a test"},
)
ROWS = [
    {"id": 1, "add": {"path": "a", "size": None}, "tags": [("k", "v")], "parts": [{"path": "b", "size": 2}]},
    {"id": 2, "add": None, "tags": None, "parts": []},
]


def required_fields(schema: pa.Schema) -> set[str]:
    """Return the names of the required fields at any depth, without the keys of maps."""

    def below(field: pa.Field) -> set[str]:
        kind = field.type
        inner = (
            list(kind)
            if pa.types.is_struct(kind)
            else [kind.item_field]
            if pa.types.is_map(kind)
            else [kind.value_field]
            if pa.types.is_list(kind)
            else []
        )
        own = set() if field.nullable else {field.name}
        return own.union(*map(below, inner))

    return set().union(*map(below, schema))


def test_required_fields_at_any_depth_become_optional_and_the_rows_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS, REQUIRED), file)
    assert required_fields(pq.read_schema(file)) == {"id", "path", "value", "element"}
    with_optional_fields(file)
    found = pq.read_table(file)
    assert required_fields(found.schema) == set()
    assert (found.to_pylist(), found.schema.metadata[b"made"]) == (ROWS, b"by a test")
    assert list(tmp_path.iterdir()) == [file]


def test_original_that_is_linked_keeps_its_content(tmp_path: Path) -> None:
    original, copy = tmp_path / "a.parquet", tmp_path / "copy" / "a.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS, REQUIRED), original)
    before = original.read_bytes()
    copy.parent.mkdir()
    os.link(original, copy)
    with_optional_fields(copy)
    assert (original.read_bytes(), copy.read_bytes() == before) == (before, False)


def test_file_without_required_fields_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "add": [{"path": "a"}]}), file)
    before = file.stat()
    with_optional_fields(file)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
