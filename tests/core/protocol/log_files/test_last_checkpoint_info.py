from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo, canonical_leaves, json_checksums

# The example of PROTOCOL.md, JSON checksum.
EXAMPLE = (
    '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], '
    '{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
)


def test_json_checksums_of_the_example_in_the_protocol() -> None:
    assert json_checksums(EXAMPLE) == ("6a92d155a59bf2eecbd4b4ec7fd1f875",) * 2
    assert canonical_leaves(EXAMPLE)[:3] == [('"k0"', '"%27v%200%27"'), ('"k1"+"k2"', "2"), ('"k1"+"k3"+0', '"v3"')]


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        ("2.710", "2.710"),
        ("1e5", "1e5"),
        ("9007199254740993", "9007199254740993"),
        ("null", "null"),
        ("true", "true"),
        ('"a/b~c.d_é+"', '"a%2Fb~c.d_%C3%A9%2B"'),
    ],
)
def test_canonical_leaves_format_a_scalar_as_in_the_protocol(value: str, canonical: str) -> None:
    assert canonical_leaves(f'{{"k": {value}}}') == [('"k"', canonical)]


def test_canonical_leaves_omit_only_the_top_level_checksum() -> None:
    assert canonical_leaves('{"checksum": "x", "a": {"checksum": "y"}, "b": {}, "c": []}') == [
        ('"a"+"checksum"', '"y"')
    ]


@pytest.mark.parametrize("order", [0, 1], ids=["by path", "by path and value, as Delta on Spark"])
def test_parse_accepts_the_checksum_of_either_order(order: int) -> None:
    values = {"version": 3, "v2Checkpoint": {"features": [str(number) for number in range(12)]}}
    checksums = json_checksums(json.dumps(values))
    assert checksums[0] != checksums[1]
    content = json.dumps({**values, "checksum": checksums[order]}).encode()
    assert LastCheckpointInfo.parse(content).version == 3


def test_parse_reads_every_field() -> None:
    values = {
        "version": 2**53 + 1,
        "size": -1,
        "parts": 3,
        "sizeInBytes": 7,
        "numOfAddFiles": 5,
        "checkpointSchema": {"type": "struct", "fields": []},
        "v2Checkpoint": {"path": "x.json"},
        "tags": {"a": "b"},
        "unknown": [1],
    }
    checksum = json_checksums(json.dumps(values))[0]
    assert LastCheckpointInfo.parse(json.dumps({**values, "checksum": checksum}).encode()) == LastCheckpointInfo(
        version=2**53 + 1,
        size=-1,
        parts=3,
        size_in_bytes=7,
        num_of_add_files=5,
        checkpoint_schema={"type": "struct", "fields": []},
        v2_checkpoint={"path": "x.json"},
        tags={"a": "b"},
        checksum=checksum,
    )


def test_parse_requires_only_the_version() -> None:
    assert LastCheckpointInfo.parse(b'{"version":0}\n') == LastCheckpointInfo(version=0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b'{"version":"3"}',
        b'{"version":-1}',
        b'{"version":1.5}',
        b'{"version":1',
        b'{"version":1}{"version":2}',
        b'{"version":1,"version":1}',
        b'{"version":1,"a":{"b":1,"b":2}}',
        b'{"version":1,"parts":"2"}',
        b'{"version":1,"checksum":"' + hashlib.md5(b"other").hexdigest().encode() + b'"}',
        b'{"version":1,"size":NaN,"checksum":"x"}',
    ],
)
def test_parse_broken_content_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        LastCheckpointInfo.parse(content)


def test_written_hint_is_parsed_with_its_checksum() -> None:
    v2 = {"path": "a.json", "sizeInBytes": 3, "modificationTime": 5}
    hint = LastCheckpointInfo(
        version=7,
        size=3,
        parts=2,
        size_in_bytes=9,
        num_of_add_files=1,
        checkpoint_schema={"type": "struct"},
        v2_checkpoint=v2,
        tags={"a": "b"},
    )
    parsed = LastCheckpointInfo.parse(hint.serialized())
    assert parsed.checksum is not None
    assert replace(parsed, checksum=None) == hint


def test_hint_with_two_possible_checksums_is_not_written() -> None:
    with pytest.raises(ValueError, match="no common checksum"):
        LastCheckpointInfo(version=7, checkpoint_schema={"a": list(range(12))}).serialized()
