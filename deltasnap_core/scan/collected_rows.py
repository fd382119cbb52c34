"""Collects rows of a DataFrame in memory, as an Arrow table.

`DataFrame.toArrow` fails for a null in a column whose type has required fields (PySpark 4.3, pyarrow 26): a variant,
or a struct with a field that is not nullable. Here Spark sends a list with each such value, and a null as null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from deltasnap_core.errors import DataFileError
from deltasnap_core.scan.predicate_analysis import predicate_failures


def collected_rows(rows: DataFrame, where: str | None = None) -> pa.Table:
    """Return rows in memory, with the types of `toArrow`. Without columns too, the table has their number.

    The fields of variants, and of structs with required fields, are nullable: Arrow can neither cast nor write a null
    in a required field, even inside of a null struct.

    where: the predicate of the rows, in SQL.
    Errors: PredicateError if Spark cannot evaluate the predicate for some row; DataFileError for a text that is not
    UTF-8, which Spark does not check; Spark's exceptions.
    """
    with predicate_failures(where):
        if not rows.columns:  # Arrow takes the number of rows from a column
            return rows.select(F.lit(True)).toArrow().select([])
        fields = rows.schema.fields
        kinds = [field.dataType for field in fields]
        if not any(map(_has_required, kinds)):
            return _checked(rows.toArrow())
        numbered = rows.toDF(*map(str, range(len(kinds))))  # several columns may have one name
        sent = numbered.select(*(_listed(F.col(str(n)), kind).alias(str(n)) for n, kind in enumerate(kinds)))
        found = sent.toArrow()
    columns = [_chunks_of(column, kind) for column, kind in zip(found.columns, kinds, strict=True)]
    schema = [pa.field(field.name, column.type, field.nullable) for field, column in zip(fields, columns, strict=True)]
    return _checked(pa.table(columns, schema=pa.schema(schema)))


def countable(data_type: Any) -> Any:
    """Return a type in Arrow with integers for dates and times: Python has no dates outside of the years 1 to 9999."""
    types = pa.types
    if types.is_timestamp(data_type):
        return pa.int64()
    if types.is_date32(data_type):
        return pa.int32()
    if types.is_struct(data_type):
        return pa.struct([field.with_type(countable(field.type)) for field in data_type])
    if types.is_map(data_type):
        return pa.map_(countable(data_type.key_type), countable(data_type.item_type))
    if types.is_list(data_type):
        return pa.list_(countable(data_type.value_type))
    return data_type


def _checked(rows: pa.Table) -> pa.Table:
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            reason = f"expected texts in UTF-8 in column {name}, found other bytes"
            raise DataFileError(path=None, table=None, version=None, reason=reason) from error
    return rows


def _is_required(kind: DataType) -> bool:
    """Return whether a type has required fields."""
    if isinstance(kind, StructType):
        return not all(field.nullable for field in kind.fields)
    return kind.typeName() == "variant"


def _has_required(kind: DataType) -> bool:
    """Return whether a type has required fields, or contains such a type."""
    match kind:
        case StructType():
            return _is_required(kind) or any(_has_required(field.dataType) for field in kind.fields)
        case ArrayType():
            return _has_required(kind.elementType)
        case MapType():
            return _has_required(kind.valueType)
    return _is_required(kind)


def _listed(value: Column, kind: DataType) -> Column:
    """Return a value with a list in place of each value of a type with required fields."""
    inner = value
    match kind:
        case StructType() if any(_has_required(field.dataType) for field in kind.fields):
            fields = (_listed(value[field.name], field.dataType).alias(field.name) for field in kind.fields)
            inner = F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType() if _has_required(kind):
            inner = F.transform(value, lambda each: _listed(each, kind.elementType))
        case MapType() if _has_required(kind):
            inner = F.transform_values(value, lambda _, each: _listed(each, kind.valueType))
    return F.when(value.isNotNull(), F.array(inner)) if _is_required(kind) else inner


def _chunks_of(column: pa.ChunkedArray, kind: DataType) -> pa.ChunkedArray:
    if not _has_required(kind):
        return column
    return pa.chunked_array([_unlisted(chunk, kind) for chunk in column.chunks or [pa.array([], column.type)]])


def _unlisted(values: pa.Array, kind: DataType) -> pa.Array:
    """Return the values from `_listed` ones."""
    if _is_required(kind):
        places = pa.array(np.cumsum(values.is_valid()) - 1, mask=values.is_null().to_numpy(zero_copy_only=False))
        taken = _inner(values.flatten(), kind).take(places)
        fields = [field.with_nullable(True) for field in taken.type]
        return pa.StructArray.from_arrays(taken.flatten(), fields=fields, mask=taken.is_null())
    return _inner(values, kind)


def _inner(values: pa.Array, kind: DataType) -> pa.Array:
    nulls = values.is_null()
    match kind:
        case StructType():
            arrays = [_unlisted(values.field(n), field.dataType) for n, field in enumerate(kind.fields)]
            fields = [field.with_type(array.type) for field, array in zip(values.type, arrays, strict=True)]
            return pa.StructArray.from_arrays(arrays, fields=fields, mask=nulls)
        case ArrayType() if _has_required(kind):
            elements = _unlisted(values.values, kind.elementType)
            data_type = pa.list_(values.type.value_field.with_type(elements.type))
            return pa.ListArray.from_arrays(values.offsets, elements, data_type, mask=nulls)
        case MapType() if _has_required(kind):
            items = _unlisted(values.items, kind.valueType)
            data_type = pa.map_(values.type.key_type, values.type.item_field.with_type(items.type))
            return pa.MapArray.from_arrays(values.offsets, values.keys, items, data_type, mask=nulls)
    return values
