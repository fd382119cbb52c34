"""The changes of a column's type after which older data files can be read. Source: PROTOCOL.md, Type Widening."""

from __future__ import annotations

from collections.abc import Mapping
from operator import le
from typing import Any

from deltasnap_core.protocol.json_records import json_text
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.schema_text import TYPE_CHANGES, type_name

STORED_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""The most digits of the Parquet integers that may store such a column. Spark reads them as decimals with as many."""

_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_TEXTS = ("string", "char(", "varchar(")
_PAIRS = {
    *((kind, "double") for kind in ("byte", "short", "integer", "float")),
    ("date", "timestamp_ntz"),
}


def is_readable_change(before: object, after: object, *, is_inside: bool = False) -> bool:
    """Return whether values of type `before` can be read as `after` without loss. before, after: types of a schema.

    Beyond the protocol, an integer may become any decimal that has all its digits, unless it is inside an array or map,
    and texts may change their limit.
    """
    earlier, later = (type_name(kind) if isinstance(kind, str) else None for kind in (before, after))
    if earlier is None or later is None:
        return False
    if earlier == later or (earlier, later) in _PAIRS or (earlier.startswith(_TEXTS) and later.startswith(_TEXTS)):
        return True
    if earlier.startswith("decimal") and later in _DIGITS:
        return False  # Spark reads it only if the file stores the decimal as an integer
    known, needed = _digits(later), _digits(earlier)
    if is_inside and earlier in _DIGITS and later not in _DIGITS:
        needed = STORED_DIGITS[earlier], 0
    return needed is not None and known is not None and all(map(le, needed, known))


def without_unreadable_changes(schema_string: str | None) -> str | None:
    """Return a schema without the recorded changes of each field of which one cannot be read. Invalid JSON is kept."""
    if schema_string is None or TYPE_CHANGES not in schema_string:
        return schema_string

    try:
        return json_text(decode_json(schema_string, object_pairs_hook=_without_unreadable))
    except ValueError:
        return schema_string


def _without_unreadable(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if key != TYPE_CHANGES or _are_readable(value)}


def is_supported_change(change: Mapping[str, Any]) -> bool:
    """Return whether values that were written before a recorded change (of `delta.typeChanges`) can be read."""
    is_inside = change.get("fieldPath") is not None
    return is_readable_change(change.get("fromType"), change.get("toType"), is_inside=is_inside)


def _are_readable(changes: object) -> bool:
    if not isinstance(changes, list):
        return False
    return all(isinstance(each, Mapping) and is_supported_change(each) for each in changes)


def _digits(kind: str) -> tuple[int, int] | None:
    """Return the digits before and after the point of an integer or a decimal; None: another type."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    if not kind.startswith("decimal"):
        return None
    precision, _, scale = kind.removeprefix("decimal").strip("()").partition(",")
    return int(precision or 10) - int(scale or 0), int(scale or 0)
