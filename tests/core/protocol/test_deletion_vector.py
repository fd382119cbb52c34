from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core.protocol.actions import DeletionVectorDescriptor

ON_DISK: dict[str, Any] = {"storageType": "u", "pathOrInlineDv": "ab^-x", "sizeInBytes": 40, "cardinality": 6}


@pytest.mark.parametrize(
    ("changes", "unique_id"),
    [
        ({}, "uab^-x"),
        ({"offset": None}, "uab^-x"),
        ({"offset": 0}, "uab^-x@0"),
        ({"offset": 4}, "uab^-x@4"),
        ({"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0"}, None),
        ({"storageType": "p", "pathOrInlineDv": "s3://b/dv%20.bin", "offset": 1}, "ps3://b/dv%20.bin@1"),
    ],
    ids=["no offset", "null offset", "offset 0", "offset 4", "inline", "absolute"],
)
def test_unique_id_contains_the_offset_if_present(changes: dict[str, Any], unique_id: str | None) -> None:
    values = {**ON_DISK, **changes}
    expected = unique_id or f"i{values['pathOrInlineDv']}"
    assert DeletionVectorDescriptor.from_json(values).unique_id == expected


def test_descriptor_is_written_as_it_was_read() -> None:
    values = {**ON_DISK, "offset": 0, "cardinality": 2**53 + 1, "maxRowIndex": 9}
    assert DeletionVectorDescriptor.from_json(values).to_json() == values
    assert DeletionVectorDescriptor.from_json(ON_DISK).to_json() == ON_DISK


@pytest.mark.parametrize("name", ON_DISK)
def test_descriptor_without_a_required_field_names_it(name: str) -> None:
    with pytest.raises(ValueError, match=rf"deletionVector\.{name}: required"):
        DeletionVectorDescriptor.from_json({**ON_DISK, name: None})
