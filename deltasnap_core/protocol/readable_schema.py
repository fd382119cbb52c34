"""Checks whether the rows of a table can be read with its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from deltasnap_core.errors import UnsupportedProtocolError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.properties.table_config import (
    ColumnMappingMode,
    check_column_mapping_mode,
    column_mapping_mode,
)
from deltasnap_core.protocol.schema_text import (
    FIELD,
    FIELD_ID,
    PHYSICAL_NAME,
    TYPE_CHANGES,
    schema_fields,
    type_name,
    unwrapped,
)
from deltasnap_core.protocol.table_features import MAX_READER_VERSION
from deltasnap_core.protocol.type_changes import is_supported_change
from deltasnap_core.redaction import redacted

T = TypeVar("T")


Place = tuple[str, int | None]
"""A file of the log, and the line in it; None: no single line."""


class UnsupportedTypeChangeError(ValueError):
    """A column had a type whose values deltasnap cannot read in its current type."""

    def as_protocol_error(self, *, path: str, version: int | None, place: Place | None) -> UnsupportedProtocolError:
        """Return the error for a version (None: unknown) of the table at `path`. place: of its metadata; None: unknown.

        Source: PROTOCOL.md, Type Widening, Reader Requirements.
        """
        part = f"{self}{place_text(place)}"
        return UnsupportedProtocolError(
            path=path, version=version, features=("typeWidening",), min_reader_version=MAX_READER_VERSION, part=part
        )


def place_text(place: Place | None) -> str:
    """Return ` (FILE, line LINE)`; empty: the place is unknown."""
    if place is None:
        return ""
    file, line = place
    return f" ({redacted(file)})" if line is None else f" ({redacted(file)}, line {line})"


_INSIDE = {"array": ("elementType",), "map": ("keyType", "valueType"), "udt": ("sqlType",)}
_WITHOUT_TEXTS = ("struct", *_INSIDE, "variant", "void", "null", "geometry", "geography", "time", "interval")
"""The types that no partition value can have. Source: PROTOCOL.md, Partition Value Serialization."""


def check_schema(metadata: Metadata) -> None:
    """Raise ValueError unless rows can be read: names and types at all levels, partition columns, column mapping.

    It is an UnsupportedTypeChangeError for a recorded change of a type that deltasnap cannot read.
    Source: PROTOCOL.md, Schema Serialization Format; Change Metadata; Column Mapping; Type Widening.
    """
    fields = schema_fields(metadata.schema_string)
    check_column_mapping_mode(metadata.configuration)
    mode = column_mapping_mode(metadata.configuration)
    ids: dict[int, str] = {}
    for above, inside in _structs(fields):
        _check_names(inside, above)
        for field in inside:
            _check_metadata(field.get("metadata") or {}, f"{above}{field['name']}", mode)
        if mode != "none":
            _check_mapping(inside, above, ids if mode == "id" else {})
    types = {field["name"].lower(): field["type"] for field in fields}
    for column in metadata.partition_columns:
        if column.lower() not in types:
            raise ValueError(f"metaData.partitionColumns: expected columns of the schema, found {column!r:.80}")
        kind = unwrapped(types.get(column.lower()))
        name = str(kind["type"] if isinstance(kind, Mapping) else kind)
        if re.split("[( ]", name)[0] in _WITHOUT_TEXTS:
            raise ValueError(f"metaData.partitionColumns: expected a type of {column} with texts, found {name}")


def _structs(fields: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield the fields of the table and of each struct inside, with the path that precedes their names.

    Errors: ValueError naming a field whose type is unknown. Its values cannot be read, not even as text.
    """
    types: list[tuple[str, Any]] = [("", {"type": "struct", "fields": fields})]
    while types:
        above, given = types.pop()
        value = unwrapped(given)
        if not isinstance(value, Mapping) or value["type"] not in ("struct", *_INSIDE):
            if not isinstance(value, str) or type_name(value) is None:
                _fail("type", above[:-1], "a known type", value)
            continue
        if value["type"] == "struct":
            yield above, value["fields"]
            types += [(f"{above}{field['name']}.", field["type"]) for field in value["fields"]]
        types += [(above, value.get(name)) for name in _INSIDE.get(value["type"], ())]


def _check_names(fields: Sequence[Mapping[str, Any]], above: str) -> None:
    known: dict[str, str] = {}
    for name in (field["name"] for field in fields):
        if name.lower() in known:
            raise ValueError(
                f"{FIELD}: expected one field {above}{name} ignoring case, found also {known[name.lower()]!r}"
            )
        known[name.lower()] = name


def _check_mapping(fields: Sequence[Mapping[str, Any]], above: str, ids: dict[int, str]) -> None:
    """Raise ValueError unless data files can tell the fields of a struct apart.

    ids: the fields of other structs by id; always empty in mode `name`, in which no reader uses ids.
    """
    physical: dict[str, str] = {}
    for field in fields:
        name, values = f"{above}{field['name']}", field.get("metadata") or {}
        if PHYSICAL_NAME not in values:
            _fail(PHYSICAL_NAME, name, "a text", None)
        _check_unique(PHYSICAL_NAME, values[PHYSICAL_NAME].lower(), name, physical)
        if values.get(FIELD_ID) is not None:
            _check_unique(FIELD_ID, values[FIELD_ID], name, ids)


def _check_unique(key: str, value: T, name: str, known: dict[T, str]) -> None:
    if value in known:
        _fail(key, name, f"another value than that of field {known[value]}", value)
    known[value] = name


def _check_metadata(values: Mapping[str, Any], name: str, mode: ColumnMappingMode) -> None:
    """Raise ValueError unless the column can be found in data files."""
    number, changes = values.get(FIELD_ID), values.get(TYPE_CHANGES)
    if not isinstance(values.get(PHYSICAL_NAME, ""), str):
        _fail(PHYSICAL_NAME, name, "a text", values[PHYSICAL_NAME])
    is_id = isinstance(number, int) and not isinstance(number, bool) and abs(number) < 1 << 31
    if not is_id and (number is not None or mode == "id"):
        _fail(FIELD_ID, name, "a 32-bit integer", number)
    if changes is not None and not (isinstance(changes, list) and all(isinstance(each, Mapping) for each in changes)):
        _fail(TYPE_CHANGES, name, "an array of objects", changes)
    for change in changes or ():
        kinds = change.get("fromType"), change.get("toType")
        if not all(isinstance(kind, str) for kind in kinds):
            _fail(TYPE_CHANGES, name, "the names of two types", change)
        if not is_supported_change(change):
            where = "" if change.get("fieldPath") is None else f" ({change['fieldPath']!r:.80})"
            raise UnsupportedTypeChangeError(f"the change of field {name}{where} from {kinds[0]:.80} to {kinds[1]:.80}")


def _fail(key: str, name: str, expected: str, found: object) -> NoReturn:
    raise ValueError(f"{FIELD}: {key} of field {name}: expected {expected}, found {found!r:.80}")
