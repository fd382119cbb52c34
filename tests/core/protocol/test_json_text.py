"""Strict decoding of JSON, and typed reading of it, at the limits of its numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from deltasnap_core.protocol.actions import AddFile, Protocol, RemoveFile
from deltasnap_core.protocol.json_records import json_text, whole_number
from deltasnap_core.protocol.json_text import MAX_NESTING, decode_json
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.protocol.state.version_checksum import VersionChecksum

DEEP = b'{"version":1,"tags":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


@pytest.mark.parametrize(
    "text",
    [b"NaN", b"[-Infinity]", rb'"\ud800"', rb'{"\uDfff":1}', b'"\xff"', b"{} {}", b"\xef\xbb\xbf{}", DEEP, b"[" * 501],
)
def test_invalid_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of which kind is no matter
        decode_json(text)


@pytest.mark.parametrize("value", [{"a": [1, None, "\U0010ffff\0\u2028"]}, 2**70, "x[[[" * 1000])
def test_json_values_are_decoded(value: object) -> None:
    assert decode_json(json.dumps(value)) == value
    assert decode_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(("text", "place"), [("", 1), ('{"a":\n?}', 7)])
def test_an_error_counts_characters_and_no_lines(text: str, place: int) -> None:
    with pytest.raises(ValueError, match=rf"^Expecting value: character {place}$"):
        decode_json(text)


def test_nesting_up_to_the_limit_is_decoded() -> None:
    assert decode_json("[" * MAX_NESTING + "]" * MAX_NESTING)
    with pytest.raises(ValueError, match="nested deeper than"):
        decode_json("[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1))


def test_sibling_values_do_not_count_as_nesting() -> None:
    assert len(decode_json("[" + ",".join(["[]"] * (2 * MAX_NESTING)) + "]")) == 2 * MAX_NESTING


def test_the_last_of_duplicate_keys_counts() -> None:
    assert decode_json('{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize("parse", [LastCheckpointInfo.parse, VersionChecksum.parse], ids=["_last_checkpoint", "crc"])
def test_a_hint_nested_too_deeply_is_a_value_error(parse: object) -> None:
    with pytest.raises(ValueError, match="nested"):
        parse(DEEP)  # type: ignore[operator]


def test_truncated_text_with_many_quotes_is_rejected_without_comparing_each_quote_with_the_rest() -> None:
    nested = '{"a": "' + '{\\"a\\": ' * 200_000  # with quadratic time, this takes minutes
    with pytest.raises(ValueError, match="Unterminated string"):
        decode_json(nested)


REMOVE = {"path": "a", "dataChange": True}
PROTOCOL = {"minWriterVersion": 2}


@pytest.mark.parametrize("number", [-(2**63), -1, 0, 2**63 - 1])
def test_integer_of_sixty_four_bits_is_read(number: int) -> None:
    assert RemoveFile.from_json({**REMOVE, "size": number}).size == number


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63, 1.5, 2.0**53, True, "1"])
def test_value_that_is_not_a_64_bit_integer_is_an_error(number: object) -> None:
    with pytest.raises(ValueError, match=r"^remove\.size: expected a 64-bit integer, found "):
        RemoveFile.from_json({**REMOVE, "size": number})


@pytest.mark.parametrize("number", [-(2**31), 0, 2**31 - 1])
def test_integer_of_thirty_two_bits_is_read(number: int) -> None:
    assert Protocol.from_json({**PROTOCOL, "minReaderVersion": number}).min_reader_version == number


@pytest.mark.parametrize("number", [-(2**31) - 1, 2**31])
def test_value_that_is_not_a_32_bit_integer_is_an_error(number: int) -> None:
    with pytest.raises(ValueError, match=r"^protocol\.minReaderVersion: expected a 32-bit integer, found "):
        Protocol.from_json({**PROTOCOL, "minReaderVersion": number})


@pytest.mark.parametrize("missing", [{}, {"minReaderVersion": None}], ids=["absent", "null"])
def test_absent_or_null_field_without_a_default_is_an_error(missing: dict[str, None]) -> None:
    with pytest.raises(ValueError, match=r"^protocol\.minReaderVersion: required, but absent or null$"):
        Protocol.from_json({**PROTOCOL, **missing})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "add: expected an object, found []"),
        ({"tags": []}, "add.tags: expected an object, found []"),
        ({"dataChange": 1}, "add.dataChange: expected a boolean, found 1"),
        ({"path": 1}, "add.path: expected a string, found 1"),
        ({"deletionVector": {"storageType": 1}}, "add.deletionVector.storageType: expected a string, found 1"),
    ],
    ids=str,
)
def test_value_of_a_wrong_type_is_an_error_with_its_place(values: Any, message: str) -> None:
    add = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        AddFile.from_json({**add, **values} if values else values)


def test_item_of_a_wrong_type_is_an_error_with_its_number() -> None:
    with pytest.raises(ValueError, match=r"^protocol.readerFeatures\[1\]: expected a string, found 1$"):
        Protocol.from_json({**PROTOCOL, "minReaderVersion": 1, "readerFeatures": ["a", 1]})


@pytest.mark.parametrize(
    ("value", "number"), [(12.0, 12), (-1e3, -1000), (2.0**53 - 1, 2**53 - 1), (0.5, 0.5), (2.0**53, 2.0**53)]
)
def test_only_a_float_without_fraction_becomes_an_integer(value: float, number: float) -> None:
    assert (whole_number(value), type(whole_number(value))) == (number, type(number))


@pytest.mark.parametrize(
    ("value", "shown"), [("x" * 78, repr("x" * 78)), ("x" * 79, "'" + "x" * 76 + "...")], ids=["80", "81"]
)
def test_value_of_a_wrong_type_is_shown_up_to_eighty_characters(value: str, shown: str) -> None:
    with pytest.raises(ValueError, match="remove") as error:
        RemoveFile.from_json({**REMOVE, "size": value})
    assert str(error.value) == f"remove.size: expected a 64-bit integer, found {shown}"


def test_text_of_a_value_is_compact_and_has_its_characters() -> None:
    assert json_text({"a": [1, "é\n"], "b": None}) == '{"a":[1,"é\\n"],"b":null}'
