from __future__ import annotations

import pytest

from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.protocol.log_files.checkpoint_files import complete_checkpoints
from deltasnap_core.protocol.log_files.file_names import ParsedLogPath
from tests.builders import compaction_file, multipart_checkpoint_files

FIRST_UUID = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"
LAST_UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def parsed(*names: str) -> list[ParsedLogPath]:
    paths = [ParsedLogPath.parse(name) for name in names]
    return [path for path in paths if path is not None]


def test_complete_checkpoints_come_best_first() -> None:
    classic, older = file_names.checkpoint_file(10), file_names.uuid_checkpoint_file(9, LAST_UUID, "json")
    two, three = multipart_checkpoint_files(10, 2), multipart_checkpoint_files(10, 3)
    first = file_names.uuid_checkpoint_file(10, FIRST_UUID, "parquet")
    last = file_names.uuid_checkpoint_file(10, LAST_UUID, "json")
    found = complete_checkpoints(parsed(older, classic, *reversed(two), *three, last, first))
    assert [tuple(file.name for file in files) for files in found] == [
        (last,),
        (first,),
        three,
        two,
        (classic,),
        (older,),
    ]


@pytest.mark.parametrize("missing", [0, 1, 2], ids=lambda part: f"part {part + 1} missing")
def test_complete_checkpoints_exclude_a_multipart_one_with_a_missing_part(missing: int) -> None:
    parts = list(multipart_checkpoint_files(10, 3))
    del parts[missing]
    assert complete_checkpoints(parsed(*parts)) == []


def test_complete_checkpoints_do_not_mix_parts_of_two_counts() -> None:
    parts = [multipart_checkpoint_files(1, 2)[0], multipart_checkpoint_files(1, 9)[1]]
    assert complete_checkpoints(parsed(*parts)) == []


def test_complete_checkpoints_cost_only_existing_parts_not_the_claimed_number() -> None:
    claimed = "00000000000000000001.checkpoint.9999999999.9999999999.parquet"
    assert complete_checkpoints(parsed(claimed)) == []


def test_complete_checkpoints_exclude_other_files() -> None:
    names = [file_names.commit_file(10), file_names.checksum_file(10), compaction_file(8, 10)]
    assert complete_checkpoints(parsed(*names, file_names.checkpoint_file(10))) == [
        tuple(parsed(file_names.checkpoint_file(10)))
    ]
