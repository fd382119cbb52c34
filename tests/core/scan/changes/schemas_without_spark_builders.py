"""Builders for the tests of schemas without spark."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": False}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": False}


def schema_of(*fields: dict[str, Any]) -> StructType:
    return StructType.fromJson(struct(*fields))


def mapped(name: str, physical: str, number: int) -> dict[str, Any]:
    return {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number, "comment": name}
