from __future__ import annotations

import pytest

from deltasnap_core.protocol.type_changes import is_readable_change, is_supported_change

DIGITS = {"byte": len(str(2**7)), "short": len(str(2**15)), "integer": len(str(2**31)), "long": len(str(2**63))}


@pytest.mark.parametrize("scale", [0, 4])
@pytest.mark.parametrize("kind", DIGITS)
def test_integer_becomes_a_decimal_that_has_all_its_digits(kind: str, scale: int) -> None:
    digits = DIGITS[kind] + scale
    assert is_readable_change(kind, f"decimal({digits},{scale})")
    assert not is_readable_change(kind, f"decimal({digits - 1},{scale})")


@pytest.mark.parametrize("scale", [0, 4])
@pytest.mark.parametrize("kind", DIGITS)
def test_integer_in_an_array_or_map_becomes_a_decimal_that_the_protocol_allows(kind: str, scale: int) -> None:
    digits = (20 if kind == "long" else 10) + scale
    for precision, expected in ((digits, True), (digits - 1, False)):
        change = {"fromType": kind, "toType": f"decimal({precision},{scale})", "fieldPath": "element"}
        assert is_supported_change(change) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("byte", "short", True),
        ("short", "integer", True),
        ("integer", "long", True),
        ("long", "integer", False),
        ("integer", "double", True),
        ("long", "double", False),  # loses digits
        ("integer", "float", False),
        ("float", "double", True),
        ("double", "float", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("timestamp_ntz", "date", False),
        ("decimal(5,2)", "decimal(7,4)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(5,1)", False),
        ("decimal(3,0)", "long", False),
        ("varchar(3)", "string", True),
        ("string", "char(3)", True),
        ("string", "binary", False),
        ("long", "long", True),
        (None, "long", False),
        ("long", {"type": "struct"}, False),
    ],
)
def test_change_is_readable_if_no_value_is_lost(before: object, after: object, expected: bool) -> None:
    assert is_readable_change(before, after) is expected
