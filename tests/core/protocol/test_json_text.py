"""Strict decoding of JSON."""

from __future__ import annotations

import json

import pytest

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
