"""Which `_last_checkpoint` a new checkpoint replaces. Without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltasnap_core import TableLog
from deltasnap_core.errors import StorageError
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.snapshot.checkpoints.checkpoint_hint import write_hint
from deltasnap_core.storage.writable_files import WritableFiles
from tests.builders import add, metadata, protocol, write_log


@pytest.mark.parametrize(
    ("hinted", "checkpoints", "is_written"),
    [
        (None, [1], True),
        ("{", [1], True),
        (0, [0, 1], True),
        (1, [1], True),
        (2, [1, 2], False),
        (0, [1, 2], False),
        (100, [1], True),
    ],
    ids=["no hint", "broken", "older", "a deleted one of this version", "newer", "newer without a hint", "rolled back"],
)
def test_a_hint_is_replaced_unless_the_log_has_a_newer_checkpoint(
    tmp_path: Path, hinted: int | str | None, checkpoints: list[int], is_written: bool
) -> None:
    log_folder = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    for version in checkpoints:
        (log_folder / file_names.checkpoint_file(version)).write_bytes(b"of this version")
    if hinted is not None:
        (log_folder / file_names.LAST_CHECKPOINT).write_text(
            hinted if isinstance(hinted, str) else json.dumps({"version": hinted, "size": 1})
        )
    log = TableLog.for_path(tmp_path)
    assert write_hint(WritableFiles(log.log_path, None), log, LastCheckpointInfo(version=1, size=3)) is is_written
    if is_written:
        found = json.loads((log_folder / file_names.LAST_CHECKPOINT).read_text())
        assert (found["version"], found["size"]) == (1, 3)


class Full(WritableFiles):
    """A storage without space."""

    def write(self, path: str, content: bytes) -> None:
        raise StorageError(path=path, reason="no space")


def test_a_hint_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()]})
    log = TableLog.for_path(tmp_path)
    assert not write_hint(Full(log.log_path, None), log, LastCheckpointInfo(version=0, size=3))
    assert "The checkpoint of version 0 is in place, but not its hint: " in caplog.text
    assert "no space" in caplog.text
