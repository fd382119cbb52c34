"""Parses and checks the JSON text of a schema, without Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from deltasnap_core.protocol.json_text import decode_json

FIELD = "metaData.schemaString"

# Keys in the metadata of a field.
FIELD_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
"""The key of the name that a column keeps when it is renamed. Source: PROTOCOL.md, Column Mapping."""
TYPE_CHANGES = "delta.typeChanges"

_PARTS = "year|month|day|hour|minute|second"
_NAME = re.compile(
    "string|long|integer|short|byte|float|double|decimal|boolean|binary|date|timestamp|timestamp_ltz|timestamp_ntz"
    rf"|variant|void|null|interval( ({_PARTS})( to ({_PARTS}))?)?|(char|varchar|time)\( *[0-9]+ *\)"
    r"|string collate [A-Za-z0-9_]+|(geometry|geography)(\([A-Za-z0-9_ ,.:-]*\))?"
)
_DECIMAL = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
_MAX_PRECISION = 38
_OLD_NAMES = {"null": "void", "timestamp_ltz": "timestamp"}
"""Names that Spark reads but no longer writes."""


def schema_fields(schema_string: str | None) -> Sequence[Mapping[str, Any]]:
    """Return the top-level fields of a schema, checked at all levels.

    Errors: ValueError if the text is not the schema of a table, or if there is none: the field is required.
    Source: PROTOCOL.md, Schema Serialization Format; Change Metadata.
    """
    if schema_string is None:
        raise ValueError(f"{FIELD}: required, but absent or null")
    try:
        decoded = decode_json(schema_string)
    except ValueError as error:
        raise ValueError(f"{FIELD}: expected JSON, found {schema_string[:40]!r}: {error}") from error
    if not isinstance(decoded, Mapping) or decoded.get("type") != "struct":
        raise ValueError(f"{FIELD}: expected a struct, found {schema_string[:40]!r}")
    try:
        _check_type(decoded, "")
    except RecursionError as error:
        raise ValueError(f"{FIELD}: nested too deeply") from error
    return fields_of(decoded)


def fields_of(struct: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a struct. Errors: ValueError."""
    fields = struct.get("fields")
    if not isinstance(fields, list):
        raise ValueError(f"{FIELD}: a struct without an array of fields")
    for field in fields:
        if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or "type" not in field:
            raise ValueError(f"{FIELD}: expected a field with name and type, found {field!r:.80}")
    return fields


def _check_type(value: Any, path: str) -> None:
    match value:
        case {"type": "struct"}:
            for field in fields_of(value):
                name = f"{path}.{field['name']}" if path else field["name"]
                if not isinstance(field.get("metadata") or {}, Mapping):
                    raise ValueError(f"{FIELD}: metadata of field {name}: expected an object")
                _check_type(field["type"], name)
        case {"type": "array", "elementType": element}:
            _check_type(element, f"{path}.element")
        case {"type": "map", "keyType": key, "valueType": item}:
            _check_type(key, f"{path}.key")
            _check_type(item, f"{path}.value")
        case {"type": "udt", "sqlType": stored}:
            _check_type(stored, f"{path}.udt")
        case {"type": "array" | "map"}:
            raise ValueError(f"{FIELD}: expected the types inside {path}, found {value!r:.80}")
        case str() | {"type": str()}:
            return  # a name; `type_name` decides whether it is known
        case _:
            raise ValueError(f"{FIELD}: expected a type at {path}, found {value!r:.80}")


def unwrapped(value: Any) -> Any:
    """Return the name of a type that is an object with only a name, `{"type": "variant"}`; any other type unchanged.

    Source: PROTOCOL.md, Variant Type.
    """
    return value["type"] if isinstance(value, Mapping) and value.keys() == {"type"} else value


def type_name(name: str) -> str | None:
    """Return the name of a primitive type as Spark writes it; None: it is not the name of a type.

    Only such a name may become part of SQL. Spark's own parser ignores what follows `decimal(10,2)`.
    The names are those of Spark, which writes types beyond those of the protocol too.
    Source: PROTOCOL.md, Primitive Types; Variant Type.
    """
    if not name.startswith("decimal("):
        return _OLD_NAMES.get(name, name) if _NAME.fullmatch(name) else None
    found = _DECIMAL.fullmatch(name)
    precision, scale = (0, 0) if found is None else map(int, found.groups())
    return f"decimal({precision},{scale})" if max(scale, 1) <= precision <= _MAX_PRECISION else None
