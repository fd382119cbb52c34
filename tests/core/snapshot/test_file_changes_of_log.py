"""`DeltaLog.file_changes` compares the right versions, in both directions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.snapshot import delta_log
from deltasnap_core.snapshot.delta_log import DeltaLog
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.catalog_tables import FILES, write_catalog_managed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("start", "end", "tables", "removes"),
    [(1, 4, "before after", None), (4, 1, "after before", "tombstones of after"), (4, 4, "before after", None)],
    ids=["forward", "backward", "the same version"],
)
def test_changes_lead_from_the_first_version_to_the_second(
    start: int, end: int, tables: str, removes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot(name: str) -> Any:
        replayable = SimpleNamespace(files=[f"log of {name}"])
        log = SimpleNamespace(replayable=replayable, catalog=f"catalog of {name}")
        return SimpleNamespace(
            scanned_table=lambda options: (name, options), all_files=name, log=log, tombstones=f"tombstones of {name}"
        )

    log: Any = DeltaLog.__new__(DeltaLog)
    first, last = sorted((start, end))
    of_version = {(first, "catalog of after"): snapshot("before")}
    log._management = SimpleNamespace(get_snapshot_at=lambda version, *, catalog: of_version[version, catalog])
    log._context = SimpleNamespace(table_log=SimpleNamespace(store="store", log_path="log"))
    monkeypatch.setattr(DeltaLog, "_with_commits_after", lambda _, *of: {(first, last): snapshot("after")}[of])
    history = {("store", "log", "catalog of after"): SimpleNamespace(get_history=lambda start, end: (start, end))}
    monkeypatch.setattr(delta_log, "DeltaHistoryManager", lambda *of, catalog: history[*of, catalog])
    monkeypatch.setattr(delta_log, "FileChanges", lambda *given, **named: (given, named))
    source, target = tables.split()
    options: Any = "options"
    given, named = log.file_changes(start, end, options=options)
    assert given == ((target, "options"), source, target)
    assert named == {
        "from_version": start,
        "to_version": end,
        "commits": (first + 1, last),
        "log_files": (f"log of {source}", f"log of {target}"),
        "removes": removes,
    }


@pytest.mark.slow
def test_changes_include_the_commits_that_the_catalog_ratified(spark: SparkSession, tmp_path: Path) -> None:
    tail = write_catalog_managed(tmp_path)
    kept = [add(name, dataChange=False) for name in FILES[:2]]
    write_checkpoint(tmp_path / "_delta_log", 1, "classic", [protocol(), metadata(), *kept])
    log = DeltaLog.for_table(spark, tmp_path)
    log.update(log_tail=tail, max_catalog_version=2)
    changes = log.file_changes(0, 2)
    assert [commit.version for commit in changes.commits] == [1, 2]
    assert (changes.summary.added_files, changes.summary.rearranged_files) == (2, 0)
    assert log.file_changes(1, 2).summary.added_files == 1
