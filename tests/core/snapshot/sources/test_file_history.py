"""The history of files starts at the first version that can be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.replay.spark.reading.schemas import ADD
from deltasnap_core.snapshot.sources import file_history as sources
from deltasnap_core.snapshot.sources.file_history import file_history


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([3, 1], ("files of 3", (4, 9))),
        ([5, 3], ("files of 3", (4, 9))),
        ([0], ("files of 0", (1, 9))),
        ([-1], ("no rows", (0, 9))),
        ([5], None),
        ([], None),
    ],
    ids=["first", "the first is damaged", "a checkpoint of version 0", "empty", "all are damaged", "none"],
)
def test_history_starts_at_the_first_version_that_can_be_read(
    starts: list[int], expected: tuple[str, tuple[int, int]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(version: int, *, catalog: str) -> str:
        assert catalog == "catalog"
        if version == 5:
            raise CorruptLogError(path="5.json", reason="damaged")
        return f"files of {version}"

    context: Any = SimpleNamespace(table_log=SimpleNamespace(at=at), session=lambda reason: f"session for {reason}")
    listing: Any = SimpleNamespace(
        starts_before={9: starts}.__getitem__, commits_between=lambda first, last: (first, last)
    )
    catalog: Any = "catalog"
    frames = {(context.session("metadata tables"), ADD): "no rows"}
    monkeypatch.setattr(sources, "no_rows", lambda *of: frames[of])
    monkeypatch.setattr(
        sources, "ReplayedVersion", lambda **of: SimpleNamespace(all_files=of["context"] is context and of["log"])
    )
    monkeypatch.setattr(sources, "events_of_commits", lambda of, commits: of is context and commits)
    found: Any = file_history(context, listing, 9, catalog)
    assert (found and (found.files, found.events)) == expected
