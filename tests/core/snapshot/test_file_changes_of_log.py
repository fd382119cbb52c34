"""`DeltaLog.file_changes` compares the right versions, in both directions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core.snapshot import delta_log
from deltasnap_core.snapshot.delta_log import DeltaLog


@pytest.mark.parametrize(
    ("start", "end", "tables", "removes"),
    [(1, 4, "before after", None), (4, 1, "after before", "tombstones of after"), (4, 4, "before after", None)],
    ids=["forward", "backward", "the same version"],
)
def test_changes_lead_from_the_first_version_to_the_second(
    start: int, end: int, tables: str, removes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot(name: str) -> Any:
        log = SimpleNamespace(replayable=SimpleNamespace(files=[f"log of {name}"]))
        return SimpleNamespace(
            scanned_table=lambda options: (name, options), all_files=name, log=log, tombstones=f"tombstones of {name}"
        )

    log = DeltaLog.__new__(DeltaLog)
    first, last = sorted((start, end))
    monkeypatch.setattr(DeltaLog, "get_snapshot_at", lambda _, version: {first: snapshot("before")}[version])
    monkeypatch.setattr(DeltaLog, "_with_commits_after", lambda _, *of: {(first, last): snapshot("after")}[of])
    monkeypatch.setattr(log, "history", SimpleNamespace(get_history=lambda start, end: (start, end)), raising=False)
    monkeypatch.setattr(delta_log, "FileChanges", lambda *given, **named: (given, named))
    source, target = tables.split()
    options: Any = "options"
    found: Any = log.file_changes(start, end, options=options)
    given, named = found
    assert given == ((target, "options"), source, target)
    assert named == {
        "from_version": start,
        "to_version": end,
        "commits": (first + 1, last),
        "log_files": (f"log of {source}", f"log of {target}"),
        "removes": removes,
    }
