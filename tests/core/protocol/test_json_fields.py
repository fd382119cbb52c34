"""Typed reading of decoded JSON, at the limits of its numbers."""

from __future__ import annotations

import pytest

from deltasnap_core.protocol.json_fields import JsonFields, json_text, whole_number


@pytest.mark.parametrize("number", [-(2**63), -1, 0, 2**63 - 1])
def test_integer_of_sixty_four_bits_is_read(number: int) -> None:
    assert JsonFields("add", {"size": number}).optional_integer("size") == number


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63, 1.5, 2.0**53, True, "1"])
def test_value_that_is_not_a_64_bit_integer_is_an_error(number: object) -> None:
    with pytest.raises(ValueError, match="size: expected a 64-bit integer"):
        JsonFields("add", {"size": number}).optional_integer("size")


@pytest.mark.parametrize("number", [-(2**31), 0, 2**31 - 1])
def test_integer_of_thirty_two_bits_is_read(number: int) -> None:
    assert JsonFields("protocol", {"minReaderVersion": number}).optional_short_integer("minReaderVersion") == number


@pytest.mark.parametrize("number", [-(2**31) - 1, 2**31])
def test_value_that_is_not_a_32_bit_integer_is_an_error(number: int) -> None:
    with pytest.raises(ValueError, match="minReaderVersion: expected a 32-bit integer"):
        JsonFields("protocol", {"minReaderVersion": number}).optional_short_integer("minReaderVersion")


@pytest.mark.parametrize(
    ("value", "number"), [(12.0, 12), (-1e3, -1000), (2.0**53 - 1, 2**53 - 1), (0.5, 0.5), (2.0**53, 2.0**53)]
)
def test_only_a_float_without_fraction_becomes_an_integer(value: float, number: float) -> None:
    assert (whole_number(value), type(whole_number(value))) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "shown"), [("x" * 78, repr("x" * 78)), ("x" * 79, "'" + "x" * 76 + "...")], ids=["80", "81"]
)
def test_value_of_a_wrong_type_is_shown_up_to_eighty_characters(value: str, shown: str) -> None:
    with pytest.raises(ValueError, match="add") as error:
        JsonFields("add", {"size": value}).optional_integer("size")
    assert str(error.value) == f"add.size: expected a 64-bit integer, found {shown}"


def test_text_of_a_value_is_compact_and_has_its_characters() -> None:
    assert json_text({"a": [1, "é\n"], "b": None}) == '{"a":[1,"é\\n"],"b":null}'
