"""The schemas with which rows can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deltasnap_core import Metadata
from deltasnap_core.protocol.readable_schema import check_schema


def mapped(*physical: str | None, mode: str = "name") -> Metadata:
    """Metadata with one column for each physical name (None: it has none)."""
    fields: list[dict[str, Any]] = []
    for number, name in enumerate(physical):
        own = {"delta.columnMapping.id": number} | ({} if name is None else {"delta.columnMapping.physicalName": name})
        fields.append({"name": f"c{number}", "type": "long", "nullable": True, "metadata": own})
    schema = json.dumps({"type": "struct", "fields": fields})
    return Metadata(id="t", schema_string=schema, configuration={"delta.columnMapping.mode": mode})


@pytest.mark.parametrize("mode", ["name", "id"])
def test_two_columns_with_one_physical_name_cannot_be_read(mode: str) -> None:
    with pytest.raises(ValueError, match="expected one physical name col-B ignoring case, found also 'col-b'"):
        check_schema(mapped("col-a", "col-b", "col-B", mode=mode))


def test_physical_names_do_not_count_without_column_mapping() -> None:
    check_schema(mapped("col-a", "col-a", mode="none"))
    check_schema(mapped("col-a", "col-b"))
