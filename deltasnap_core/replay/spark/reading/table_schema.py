"""Parses the schema of a table: from the JSON text in its metadata to a Spark schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.readable_schema import Place, UnsupportedTypeChangeError, check_schema
from deltasnap_core.protocol.schema_text import FIELD, fields_of, schema_fields, type_name, unwrapped
from deltasnap_core.redaction import logger_of

_log = logger_of(__name__)

UNKNOWN_TYPES = "deltasnap.unknownTypes"
"""The metadata key of a field with types that are unknown to Spark.

Its value maps paths to type names. A path is the field name, followed by `.element`, `.key` or `.value` inside arrays
and maps.
"""


def parse_schema(schema_string: str | None) -> StructType:
    """Return the Spark schema of a `schema_string` (Metadata.schema_string).

    All types of this PySpark are kept, including `variant`, `void`, intervals, `char(n)` and `varchar(n)`. The metadata
    of a field is kept: column mapping ids and physical names, type-widening history, collations, and the char or
    varchar type of a string column.
    A type that is unknown to Spark becomes a string; its name is stored in the field's metadata under `UNKNOWN_TYPES`,
    and a warning is logged. A user-defined type becomes its storage type; its class is stored there too.
    Errors: ValueError if the text is not the schema of a table, or if there is none.
    Source: PROTOCOL.md, Schema Serialization Format.
    """
    fields = schema_fields(schema_string)
    try:
        return StructType([_field(field) for field in fields])
    except RecursionError as error:
        raise ValueError(f"{FIELD}: nested too deeply") from error


def schema_of(metadata: Metadata, *, table_path: str, version: int | None, place: Place | None = None) -> StructType:
    """Return the Spark schema of a version of a table (None: unknown).

    place: the file with the metadata, and the line in it; None: unknown.
    Errors, naming the place: CorruptLogError if rows cannot be read by it, see `check_schema`;
    UnsupportedProtocolError for a recorded change of a type that is not supported.
    """
    path, line = (table_path, None) if place is None else place
    try:
        check_schema(metadata)
        return parse_schema(metadata.schema_string)
    except UnsupportedTypeChangeError as error:
        raise error.as_protocol_error(path=table_path, version=version, place=place) from error
    except ValueError as error:
        raise CorruptLogError(path=path, line=line, reason=f"metadata of version {version}: {error}") from error


def _field(value: Mapping[str, Any]) -> StructField:
    name, metadata = value["name"], value.get("metadata") or {}
    unknown: dict[str, str] = {}
    data_type = _data_type(value["type"], name, unknown)
    if unknown:
        _log.warning("Types unknown to Spark, read as strings: %s", unknown)
        metadata = {**metadata, UNKNOWN_TYPES: unknown}
    return StructField(name, data_type, _flag(value, "nullable"), dict(metadata))


def _data_type(value: Any, path: str, unknown: dict[str, str]) -> DataType:
    """Return the type for a JSON value. Types that are unknown to Spark are added to `unknown`, by path."""
    match unwrapped(value):
        case str(value):
            known = _named_type(value)
            if known is None:
                unknown[path] = value
            return known or StringType()
        case {"type": "struct"}:
            return StructType([_field(field) for field in fields_of(value)])
        case {"type": "array", "elementType": element}:
            return ArrayType(_data_type(element, f"{path}.element", unknown), _flag(value, "containsNull"))
        case {"type": "map", "keyType": key, "valueType": item}:
            return MapType(
                _data_type(key, f"{path}.key", unknown),
                _data_type(item, f"{path}.value", unknown),
                _flag(value, "valueContainsNull"),
            )
        case {"type": "udt", "sqlType": stored}:
            # not with Spark's own parser, which imports the class that the table names
            unknown[path] = str(value.get("class") or value.get("pyClass") or "udt")
            return _data_type(stored, f"{path}.udt", unknown)
        case {"type": str(name)} if name not in ("array", "map"):
            unknown[path] = name
            return StringType()
    raise AssertionError(f"not checked: {value!r}")


@lru_cache(maxsize=1024)  # a table has few types and perhaps thousands of columns
def _named_type(name: str) -> DataType | None:
    """Return the Spark type for a name such as `decimal(10,2)`; None: unknown to this PySpark."""
    checked = type_name(name)
    if checked is None:
        return None
    field = {"name": "field", "type": checked, "nullable": True, "metadata": {}}
    try:
        parsed: DataType | None = StructType.fromJson({"fields": [field]}).fields[0].dataType
    except PySparkException:
        return None
    return parsed


def _flag(value: Mapping[str, Any], name: str) -> bool:
    flag = value.get(name)
    return True if flag is None else bool(flag)
