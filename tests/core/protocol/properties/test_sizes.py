from __future__ import annotations

import pytest

from deltasnap_core.protocol.properties.table_config import parse_size_bytes, target_file_size_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("104857600", 100 << 20),
        ("100mb", 100 << 20),
        (" 1GB ", 1 << 30),
        ("64k", 64 << 10),
        ("2t", 2 << 40),
        ("7b", 7),
        ("4096p", 1 << 62),
    ],
)
def test_size_is_a_number_of_bytes_or_has_a_unit(text: str, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "mb", "0", "-1", "1.5gb", "1 gb", "1kib", "9e9", "٣", f"{(1 << 62) + 1}", f"{1 << 62}0", "5000p1", "4097p"],
)
def test_other_text_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size_bytes(text)


def test_target_size_comes_from_the_table_or_is_128_mib() -> None:
    assert target_file_size_bytes({"delta.targetFileSize": "1mb"}) == 1 << 20
    assert target_file_size_bytes({}) == 128 << 20
    assert target_file_size_bytes({"delta.targetFileSize": "many"}) == 128 << 20
