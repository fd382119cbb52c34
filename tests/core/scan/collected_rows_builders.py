"""Builders for the tests of collected rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasnap_core.support import collected_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_VALUES = "select id, if(id % 2 = 0, null, parse_json(concat('{\"a\":', id, '}'))) as v from range(5)"


VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={b"variant": b"true"})])


ONE = {"value": b"\x02\x01\x00\x00\x02\x0c\x01", "metadata": b"\x01\x00\x01a"}


THREE = {**ONE, "value": b"\x02\x01\x00\x00\x02\x0c\x03"}


def collected(spark: SparkSession, sql: str) -> pa.Table:
    found = collected_rows(spark.sql(f"select {sql} from ({_VALUES}) order by id"))
    found.validate(full=True)
    return found


def plain(value: Any) -> Any:
    """Return a value whose variants have no version byte: writers may mark the keys as sorted there."""
    if isinstance(value, dict):
        return {name: each[1:] if name == "metadata" else plain(each) for name, each in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


def assert_null_variants(spark: SparkSession) -> None:
    found = collected(spark, "id, v, v as v")
    assert found.column_names == ["id", "v", "v"]
    for column in found.columns[1:]:
        assert plain(column.to_pylist()) == [None, ONE, None, THREE, None]
        assert column.type.equals(VARIANT, check_metadata=True)
