"""The files of an opened checkpoint, and its number of actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint

ACTIONS = [protocol(), metadata(), add("a"), add("b"), remove("c")]
# By style: top-level files, sidecars, lines, actions (a V2 checkpoint has one action for itself and one per sidecar).
EXPECTED = {
    "classic": (1, 0, 0, 5),
    "multipart": (2, 0, 0, 5),
    "v2-parquet": (1, 0, 0, 6),
    "v2-json": (0, 0, 6, 6),
    "v2-parquet-sidecars": (1, 2, 0, 8),
    "v2-json-sidecars": (0, 2, 5, 8),
}


def opened(table: Path, style: CheckpointStyle) -> CheckpointContents:
    log = write_log(table, {0: [protocol(), metadata()], 1: [add("a")]})
    write_checkpoint(log, 1, style, ACTIONS)
    store = FsspecLogStore()
    provider = LogSegmentBuilder(store, f"file://{log}").build().checkpoint_provider
    assert isinstance(provider, CheckpointProvider)
    return open_checkpoint(store, provider, f"file://{log}")


@pytest.mark.parametrize("style", STYLES)
def test_checkpoint_consists_of_its_files_its_sidecars_or_its_lines(style: CheckpointStyle, tmp_path: Path) -> None:
    contents = opened(tmp_path, style)
    found = (len(contents.top_level), len(contents.sidecars), contents.lines.num_rows, contents.num_rows)
    assert found == EXPECTED[style]
    assert contents.version == 1
    assert (contents.lines_path is None) == ("json" not in style)


@pytest.mark.parametrize("style", STYLES)
def test_file_actions_are_read_from_every_file_that_may_contain_some(style: CheckpointStyle, tmp_path: Path) -> None:
    contents = opened(tmp_path, style)
    assert contents.files_with_file_actions == (*contents.top_level, *contents.sidecars)
    assert all(file.has_file_actions for file in contents.sidecars)
