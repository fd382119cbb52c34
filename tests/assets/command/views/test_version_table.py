from __future__ import annotations

import pytest

from deltasnap_assets.command.views.version_table import files_changed, operation_text
from deltasnap_core import CommitInfo
from deltasnap_core.support import VersionChanges

FILES = {"none": (0, 0, []), "one": (1, 0, ["+1 file"]), "gone": (0, 1, ["-1 file"]), "both": (6, 22, ["+6 -22 files"])}


@pytest.mark.parametrize("case", FILES)
def test_added_and_removed_files_are_counted(case: str) -> None:
    added, removed, expected = FILES[case]
    changes = VersionChanges(num_added_files=added, num_removed_files=removed, added_bytes=0, removed_bytes=0)
    assert list(files_changed(changes)) == expected
    assert list(files_changed(None)) == []


def test_operation_includes_its_mode() -> None:
    assert operation_text(CommitInfo(operation="WRITE", operation_parameters={"mode": "Append"})) == "WRITE (append)"
    assert operation_text(CommitInfo(operation="MERGE", operation_parameters={"mode": "x"})) == "MERGE"
    assert operation_text(CommitInfo()) == "unknown"
