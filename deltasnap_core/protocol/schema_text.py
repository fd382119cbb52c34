"""Parses the JSON text of a schema, as far as all readers need it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from deltasnap_core.protocol.json_text import decode_json

FIELD = "metaData.schemaString"

_NAME = re.compile(r"[A-Za-z0-9_ ]+(\([A-Za-z0-9_ ,.:-]*\))?")
_DECIMAL = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
_MAX_PRECISION = 38


def schema_fields(schema_string: str | None) -> Sequence[Mapping[str, Any]]:
    """Return the top-level fields of a schema, each with a name and a type; None: a schema without fields.

    Errors: ValueError if the text is not the schema of a table.
    Source: PROTOCOL.md, Schema Serialization Format.
    """
    if schema_string is None:
        return ()
    try:
        decoded = decode_json(schema_string)
    except ValueError as error:
        raise ValueError(f"{FIELD}: expected JSON, found {schema_string[:40]!r}: {error}") from error
    if not isinstance(decoded, Mapping) or decoded.get("type") != "struct":
        raise ValueError(f"{FIELD}: expected a struct, found {schema_string[:40]!r}")
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


def type_name(name: str) -> str | None:
    """Return the name of a primitive type, without blanks in a decimal; None: it is not the name of a type.

    Only such a name may become part of SQL. Spark's own parser ignores what follows `decimal(10,2)`.
    Source: PROTOCOL.md, Primitive Types.
    """
    if not name.startswith("decimal("):
        return name if _NAME.fullmatch(name) else None
    found = _DECIMAL.fullmatch(name)
    precision, scale = (0, 0) if found is None else map(int, found.groups())
    return f"decimal({precision},{scale})" if max(scale, 1) <= precision <= _MAX_PRECISION else None
