"""The file actions of stored versions. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from tests.builders import write_log
from tests.core.store.test_stored_row_changes import (
    COMMITS,
    check,
    test_a_moved_file_is_not_a_delete_after_its_tombstone_expired,
    test_actions_of_consecutive_versions_read_the_base_once_and_parse_only_changes,
    write_versions,
)
from tests.driver_bases import spark


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("splits", [(4,), (1, 2, 6, 7)], ids=["two writes", "many writes"])
def test_actions_of_stored_versions_equal_a_comparison_of_all_files(tmp_path: Path, splits: Sequence[int]) -> None:
    write_log(tmp_path / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(None, tmp_path / "store")
    write_versions(store, DeltaLog.for_table(None, tmp_path / "t"), splits)
    check(store, 0, len(COMMITS) - 1)
