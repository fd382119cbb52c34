"""Compares deleted and inserted rows: unchanged copies, updates of a key, the net change of several versions.

All frames have the columns of the table, then CHANGE_COLUMNS. Rows are multisets: a row that is deleted twice and
inserted once is deleted once. Two rows are equal if all columns are: null equals null, NaN equals NaN, 0.0 does not
equal -0.0, maps are equal if they have the same entries in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window, functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, NullType, StringType, StructType

from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.rules.texts.sql_text import quoted
from deltasnap_core.scan.changes.changed_rows import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
)
from deltasnap_core.scan.physical_schema import OWN_PREFIX

_FORM, _COPIES, _PLACE = (f"{OWN_PREFIX}{name}" for name in ("form", "copies", "place"))
_LAST, _DELETED, _INSERTED = (f"{OWN_PREFIX}{name}" for name in ("last", "deleted", "inserted"))
_TIMES = (COMMIT_VERSION, COMMIT_TIMESTAMP)


def difference(changes: DataFrame, schema: StructType) -> DataFrame:
    """Return the inserts and deletes of each version that do not cancel out. schema: of the table.

    A preimage counts as a delete, a postimage as an insert.
    """
    is_new = F.col(CHANGE_TYPE).isin(INSERT, POSTIMAGE)
    names = form_names(schema)
    forms = [_form(F.col(quoted(name)), schema[name].dataType).alias(form) for name, form in names.items()]
    counted = aggregated(
        changes.select("*", *forms),
        [*_TIMES, *(names.get(name, quoted(name)) for name in schema.names)],
        F.sum(F.when(is_new, 1).otherwise(-1)).alias(_COPIES),
        # Rows of a group differ at most in the order of their maps.
        *(F.any_value(quoted(name)).alias(name) for name in names),
    )
    copies = F.array_repeat(F.when(F.col(_COPIES) > 0, INSERT).otherwise(DELETE), F.abs(_COPIES).cast("int"))
    return counted.where(f"{_COPIES} <> 0").select(
        *(quoted(name) for name in schema.names), F.explode(copies).alias(CHANGE_TYPE), *_TIMES
    )


def net_changes(changes: DataFrame, schema: StructType, key: Sequence[Sequence[str]] | None) -> DataFrame:
    """Return the changes from before the first version to the last one, from the `difference` of each version.

    key: the paths of its columns, or of fields inside structs; None: all columns.
    `_commit_version` is the last version that changed the key.
    """
    same = Window.partitionBy(*_forms(schema, _columns(schema) if key is None else key))
    last = changes.withColumn(_LAST, F.max(F.struct(*_TIMES)).over(same))
    dated = last.select(
        *(quoted(name) for name in schema.names),
        CHANGE_TYPE,
        *(F.col(f"{_LAST}.{name}").alias(name) for name in _TIMES),
    )
    return difference(dated, schema)


def paired(changes: DataFrame, schema: StructType, key: Sequence[Sequence[str]]) -> DataFrame:
    """Return the `difference` of each version with the deletes and inserts of each key paired to updates.

    If a version deletes n rows of a key and inserts m, the smaller number of pairs are updates, in the order of the
    rows' columns. The others stay deletes or inserts.
    """
    names = [f"{_FORM}_key{index}" for index in range(len(key))]
    keys = [form.alias(name) for form, name in zip(_forms(schema, key), names, strict=True)]
    of_key = Window.partitionBy(COMMIT_VERSION, *names)
    is_new = F.col(CHANGE_TYPE) == INSERT
    in_order = Window.partitionBy(COMMIT_VERSION, *names, CHANGE_TYPE).orderBy(*_forms(schema, _columns(schema)))
    placed = (
        changes.select("*", *keys)
        .withColumn(_DELETED, F.count(F.when(~is_new, 1)).over(of_key))
        .withColumn(_INSERTED, F.count(F.when(is_new, 1)).over(of_key))
        .withColumn(_PLACE, F.row_number().over(in_order))
    )
    is_pair = F.col(_PLACE) <= F.least(_DELETED, _INSERTED)
    change = F.when(is_pair, F.when(is_new, POSTIMAGE).otherwise(PREIMAGE)).otherwise(F.col(CHANGE_TYPE))
    return placed.withColumn(CHANGE_TYPE, change).select(*(quoted(name) for name in (*schema.names, *CHANGE_COLUMNS)))


def form_names(schema: StructType) -> dict[str, str]:
    """Return the names for the forms of the columns that Spark does not compare as this module does."""
    names = [field.name for field in schema if _needs_form(field.dataType)]
    return {name: f"{_FORM}{index}" for index, name in enumerate(names)}


def _columns(schema: StructType) -> list[tuple[str]]:
    return [(name,) for name in schema.names]


def _forms(schema: StructType, paths: Sequence[Sequence[str]]) -> list[Column]:
    return [_form(F.col(".".join(map(quoted, path))), _type(schema, path)) for path in paths]


def _type(schema: StructType, path: Sequence[str]) -> DataType:
    kind: Any = schema
    for name in path:
        kind = kind[name].dataType
    return kind  # type: ignore[no-any-return]


def _needs_form(data_type: DataType) -> bool:
    match data_type:
        case StructType():
            return any(_needs_form(field.dataType) for field in data_type.fields)
        case ArrayType():
            return _needs_form(data_type.elementType)
        case StringType():
            return _is_collated(data_type)
    return isinstance(data_type, (FloatType, DoubleType, MapType, NullType)) or data_type.typeName() == "variant"


def _form(column: Column, data_type: DataType) -> Column:
    """Return a value that Spark can group by and sort by, and that is equal for equal values only."""
    if not _needs_form(data_type):
        return column
    match data_type:
        case FloatType() | DoubleType():
            return column.cast("string")  # Spark groups 0.0 and -0.0 together
        case StringType():
            return column.cast("binary")  # a collation may group A and a together
        case NullType():
            return F.lit(None).cast("boolean")
        case ArrayType():
            element = data_type.elementType
            return F.transform(column, lambda value: _form(value, element))
        case MapType():
            key, value = data_type.keyType, data_type.valueType
            entries = F.transform(
                F.map_entries(column), lambda entry: F.struct(_form(entry["key"], key), _form(entry["value"], value))
            )
            return F.array_sort(entries)
        case StructType():
            fields = [_form(column.getField(field.name), field.dataType) for field in data_type.fields]
            return F.when(column.isNotNull(), F.struct(*fields))
    # A variant: as JSON, and with its type, because JSON has fewer types.
    return F.when(column.isNotNull(), F.struct(F.to_json(column), F.schema_of_variant(column)))


def _is_collated(data_type: StringType) -> bool:
    return getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY"
