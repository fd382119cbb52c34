"""The schema of a table as in its data files, and the conversion of a file's column to the table's column."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, functions as F
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DecimalType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from deltasnap_core.protocol.properties.table_config import ColumnMappingMode
from deltasnap_core.protocol.schema_text import FIELD_ID, PHYSICAL_NAME, TYPE_CHANGES
from deltasnap_core.protocol.type_changes import STORED_DIGITS
from deltasnap_core.rules.texts.sql_text import quoted
from deltasnap_core.scan.predicates.filter_pushdown import may_push_down

OWN_PREFIX = "__deltasnap_"
"""The prefix of the columns that scans and row changes add to rows."""

_PARQUET_ID = "parquet.field.id"
_KEPT = ("comment",)


def logical_schema(schema: StructType) -> StructType:
    """Return the schema of the rows of a scan: every column is nullable, char and varchar are strings."""
    return _struct(schema, None)


def physical_schema(schema: StructType, mode: ColumnMappingMode) -> StructType:
    """Return the schema for reading data files: names (and ids, with mode `id`) as in the files.

    Columns of type void are left out, since no file has them.
    Source: PROTOCOL.md, Column Mapping.
    """
    return _struct(schema, mode)


def to_logical(field: StructField, mode: ColumnMappingMode, *, shares_path: bool = False) -> Column:
    """Return the column of the table for a field, from the column of the data files.

    Spark pushes down filters on it only if `may_push_down` allows this, and not if it is one of
    `TableColumns.with_shared_paths`.
    """
    logical = _field(field, None)
    if isinstance(field.dataType, NullType):
        return F.lit(None).alias(field.name)
    physical = _field(field, mode)
    column = F.col(quoted(physical.name))
    is_nested = isinstance(field.dataType, StructType | ArrayType | MapType)
    if shares_path or (mode == "id" and is_nested):
        column = _opaque(column)  # with ids: if Spark reads only some fields of a struct, it loses them
    elif physical == logical and _is_read_whole(field, mode):
        return column  # no alias: a table may have thousands of columns
    return _read(column, physical, field, mode).alias(field.name, metadata=logical.metadata)


def _read(column: Column, physical: StructField, field: StructField, mode: ColumnMappingMode) -> Column:
    """Return a column, or a field of a struct, with the names and types of the table."""
    if isinstance(field.dataType, StructType) and not _is_read_whole(field, mode):
        assert isinstance(physical.dataType, StructType)
        found = iter(physical.dataType.fields)
        fields: list[Column] = []
        for inner in field.dataType.fields:
            if isinstance(inner.dataType, NullType):
                fields.append(F.lit(None).alias(inner.name))
            else:
                each = next(found)
                value = _read(column.getField(each.name), each, inner, mode)
                fields.append(value.alias(inner.name, metadata=_field(inner, None).metadata))
        return F.when(column.isNotNull(), F.struct(*fields))
    if not _is_read_whole(field, mode):
        column = _opaque(column)
    logical = _type(field.dataType, None)
    if _has_void(logical):
        return _read_with_void(column, physical.dataType, field.dataType, mode)
    return column if physical.dataType.simpleString() == logical.simpleString() else column.cast(logical)


def _opaque(column: Column) -> Column:
    """Return the same values as an expression through which Spark pushes no filter, and no choice of fields."""
    return F.coalesce(column, column)


def _read_with_void(column: Column, physical: DataType, logical: DataType, mode: ColumnMappingMode) -> Column:
    """Return an array or map that has a void inside. A cast cannot add fields."""
    if isinstance(logical, ArrayType) and isinstance(physical, ArrayType) and _is_nested(logical.elementType):
        inside, kind = StructField("value", physical.elementType), StructField("value", logical.elementType)
        return F.transform(column, lambda each: _read(each, inside, kind, mode))
    if isinstance(logical, MapType) and isinstance(physical, MapType) and _is_nested(logical.valueType):
        inside, kind = StructField("value", physical.valueType), StructField("value", logical.valueType)
        return F.transform_values(column, lambda _, each: _read(each, inside, kind, mode))
    return column  # an array of void, a map from structs with a void: left to Spark


def _is_nested(data_type: DataType) -> bool:
    return isinstance(data_type, (StructType, ArrayType, MapType))


def _is_read_whole(field: StructField, mode: ColumnMappingMode) -> bool:
    """Return whether a column is read directly: each leaf may be pushed down, and none is void."""
    if isinstance(field.dataType, StructType):
        return all(_is_read_whole(inner, mode) for inner in field.dataType.fields)
    if isinstance(field.dataType, (ArrayType, MapType)):
        return may_push_down(field.dataType.typeName(), is_widened=False, mode="none")
    data_type = str(_type(field.dataType, mode).jsonValue())
    return may_push_down(data_type, is_widened=bool(field.metadata.get(TYPE_CHANGES)), mode=mode)


def _struct(schema: StructType, mode: ColumnMappingMode | None) -> StructType:
    fields = schema.fields if mode is None else [f for f in schema.fields if not isinstance(f.dataType, NullType)]
    return StructType([_field(field, mode) for field in fields])


def _field(field: StructField, mode: ColumnMappingMode | None) -> StructField:
    data_type = _type(field.dataType, mode)
    if mode is not None:
        data_type = _readable_decimal(field) or data_type
    if mode is None:
        kept = {name: value for name, value in field.metadata.items() if name in _KEPT}
        return StructField(field.name, data_type, True, kept)
    if mode == "none":
        return StructField(field.name, data_type, True)
    ids: dict[str, Any] = {}
    if mode == "id" and FIELD_ID in field.metadata:
        ids = {_PARQUET_ID: field.metadata[FIELD_ID]}
    return StructField(field.metadata.get(PHYSICAL_NAME, field.name), data_type, True, ids)


def _type(data_type: DataType, mode: ColumnMappingMode | None) -> DataType:
    match data_type:
        case StructType():
            return _struct(data_type, mode)
        case ArrayType():
            return ArrayType(_type(data_type.elementType, mode), True)
        case MapType():
            return MapType(_type(data_type.keyType, mode), _type(data_type.valueType, mode), True)
        case CharType() | VarcharType():
            return StringType()
    return data_type


def _readable_decimal(field: StructField) -> DataType | None:
    """Return the type for reading a decimal column that was widened from an integer; None: it was not.

    Spark reads the integers of older files only as decimals with enough digits for all integers of that type.
    """
    if not isinstance(field.dataType, DecimalType):
        return None
    digits = [STORED_DIGITS.get(str(change.get("fromType")), 0) for change in field.metadata.get(TYPE_CHANGES) or ()]
    precision, scale = field.dataType.precision, field.dataType.scale
    needed = max(digits, default=0) + scale
    return DecimalType(min(needed, 38), scale) if precision < needed else None


def _has_void(data_type: DataType) -> bool:
    match data_type:
        case StructType():
            return any(_has_void(field.dataType) for field in data_type.fields)
        case ArrayType():
            return _has_void(data_type.elementType)
        case MapType():
            return _has_void(data_type.valueType)
    return isinstance(data_type, NullType)
