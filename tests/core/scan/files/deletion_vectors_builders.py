"""Builders for the tests of deletion vectors."""

from __future__ import annotations

import struct
from typing import Any

from tests.core.scan.files.roaring_builders import array_container, array_of, bitmap_of


def encode_z85(content: bytes) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    padded = content + bytes(-len(content) % 4)
    numbers = struct.unpack(f">{len(padded) // 4}I", padded)
    return "".join(digits[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0))


def inline_vector(*rows: int) -> dict[str, Any]:
    """Return an inline deletion vector of some rows, ascending."""
    content = array_of(k0=bitmap_of(array_container(0, list(rows))))
    text = encode_z85(content)
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(content), "cardinality": len(rows)}
