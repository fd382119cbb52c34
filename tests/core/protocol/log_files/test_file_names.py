from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, LogFileKind, ParsedLogPath
from tests.builders import compaction_file, multipart_checkpoint_files, staged_commit_file

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
V = "00000000000000000010"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{V}.json", {"kind": LogFileKind.COMMIT, "extension": "json"}),
        (f"{V}.crc", {"kind": LogFileKind.CHECKSUM}),
        (f"{V}.{UUID}.json", {"kind": LogFileKind.STAGED_COMMIT, "extension": "json"}),
        (
            f"{V}.checkpoint.parquet",
            {"kind": LogFileKind.CHECKPOINT, "checkpoint_kind": CheckpointKind.CLASSIC, "extension": "parquet"},
        ),
        (
            f"{V}.checkpoint.0000000002.0000000003.parquet",
            {
                "kind": LogFileKind.CHECKPOINT,
                "checkpoint_kind": CheckpointKind.MULTIPART,
                "part": 2,
                "num_parts": 3,
                "extension": "parquet",
            },
        ),
        (
            f"{V}.checkpoint.{UUID}.json",
            {"kind": LogFileKind.CHECKPOINT, "checkpoint_kind": CheckpointKind.UUID, "extension": "json"},
        ),
        (
            f"{V}.checkpoint.{UUID.upper()}.parquet",
            {
                "kind": LogFileKind.CHECKPOINT,
                "checkpoint_kind": CheckpointKind.UUID,
                "extension": "parquet",
            },
        ),
        (
            f"{V}.00000000000000000020.compacted.json",
            {"kind": LogFileKind.COMPACTION, "end_version": 20, "extension": "json"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parse_log_file_name_returns_its_parts(name: str, expected: dict[str, Any]) -> None:
    assert ParsedLogPath.parse(name) == ParsedLogPath(name=name, version=10, **expected)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_last_checkpoint",
        "_sidecars",
        f".{V}.json.crc",
        f"{V}.json.tmp",
        f"{V}.json\n",
        f"x{V}.json",
        "10.json",
        f"{10:019}.json",
        f"{10:019}x.json",
        f"0{V}.json",
        "99999999999999999999.json",
        "٠" * 20 + ".json",
        f"{V}.parquet",
        f"{V}.crc.crc",
        f"{V}.0000000000.stats.json",
        f"{V}.not-a-uuid.json",
        f"{V}.checkpoint.json",
        f"{V}.checkpoint.not-a-uuid.parquet",
        f"{V}.checkpoint.{UUID}.avro",
        f"{V}.checkpoint.0000000000.0000000003.parquet",
        f"{V}.checkpoint.0000000004.0000000003.parquet",
        f"{V}.checkpoint.1.3.parquet",
        f"{V}.checkpoint.0000000001.0000000002.{UUID}.parquet",
        f"{V}.{V}.compacted.json",
        f"{V}.00000000000000000009.compacted.json",
    ],
)
def test_parse_other_name_returns_none(name: str) -> None:
    assert ParsedLogPath.parse(name) is None


def test_parse_reads_names_from_the_builders() -> None:
    big = 2**63 - 1
    names = [
        file_names.commit_file(big),
        file_names.checksum_file(0),
        file_names.checkpoint_file(7),
        compaction_file(1, 2),
        staged_commit_file(5, UUID),
        file_names.uuid_checkpoint_file(6, UUID, "json"),
        *multipart_checkpoint_files(3, 2),
    ]
    parsed = [ParsedLogPath.parse(name) for name in names]
    assert [path.version for path in parsed if path] == [big, 0, 7, 1, 5, 6, 3, 3]
    assert names[-2:] == [
        "00000000000000000003.checkpoint.0000000001.0000000002.parquet",
        "00000000000000000003.checkpoint.0000000002.0000000002.parquet",
    ]


def test_listing_prefix_sorts_between_its_version_and_the_previous_one() -> None:
    prefix = file_names.listing_prefix(10)
    before = [file_names.commit_file(9), file_names.checksum_file(9), file_names.uuid_checkpoint_file(9, UUID, "json")]
    within = [file_names.commit_file(10), file_names.checksum_file(10), compaction_file(10, 11)]
    assert max(before) < prefix < min(within)


def test_kinds_of_checkpoints_are_named_as_they_are_stored_and_ordered_as_delta_prefers_them() -> None:
    assert [kind.value for kind in sorted(CheckpointKind, key=lambda kind: kind.rank)] == [
        "classic",
        "multipart",
        "uuid",
    ]


def test_version_of_a_file_is_read_up_to_the_greatest_that_the_protocol_allows() -> None:
    assert file_names.commit_version("file:///t/_delta_log/09223372036854775807.json") == 9223372036854775807
    for prefix, suffix in (("", ".json"), ("", ".checkpoint.parquet"), (f"{V}.", ".compacted.json")):
        most, more = (ParsedLogPath.parse(f"{prefix}{number:020d}{suffix}") for number in (2**63 - 1, 2**63))
        assert (most is None, more) == (False, None)


def test_names_match_the_protocol() -> None:
    assert file_names.LOG_FOLDER == "_delta_log"
    assert file_names.LAST_CHECKPOINT == "_last_checkpoint"
    assert file_names.SIDECAR_FOLDER == "_sidecars"
    assert file_names.commit_file(10) == "00000000000000000010.json"
    assert file_names.checksum_file(10) == "00000000000000000010.crc"
    assert file_names.checkpoint_file(10) == "00000000000000000010.checkpoint.parquet"
    assert file_names.uuid_checkpoint_file(10, UUID, "json") == f"00000000000000000010.checkpoint.{UUID}.json"
    assert file_names.listing_prefix(10) == "00000000000000000010."


@pytest.mark.parametrize(
    "name", ["", f"{V}", f"{V}.crc", f"x{V}.json", f"{V[:-1]}.json", f"{V[:-1]}x.json", f"x{V[1:]}.json", f"{V}json"]
)
def test_version_of_another_file_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match="Not a commit"):
        file_names.commit_version(f"file:///t/_delta_log/{name}")
