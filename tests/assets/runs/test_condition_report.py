from __future__ import annotations

from pathlib import Path

from deltasnap_assets.runs.condition.condition_report import fault_entries
from deltasnap_core import TableLog
from tests.builders import add, metadata, protocol, write_log


def entries_of(path: Path) -> dict[str, object]:
    table = TableLog.for_path(str(path), {})
    told = fault_entries(table.condition(table.list(), read_pages=False), None, 0)
    return {name: entry.value for name, entry in told.items()}


def test_page_lists_unloadable_versions_with_reasons(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    (log / f"{1:020}.json").write_text("\n{nope\n", encoding="utf-8")
    told = entries_of(tmp_path)
    rows = str(told["cannot_be_loaded"]).splitlines()
    assert rows[:2] == ["| versions | why |", "|-|-|"]
    assert rows[2].startswith(f"| 1 to 2 | {1:020}.json, line 2: expected a line of JSON: ")
    assert (len(rows), told["can_be_loaded"]) == (3, "0")
    assert told["numbers_of"] == "version 0, the last good one"


def test_page_counts_the_commits_that_are_missing(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 3: [add("a")]})
    rows = str(entries_of(tmp_path)["cannot_be_loaded"]).splitlines()
    assert rows[2] == "| 1 to 3 | the commits of versions 1 to 2 are missing |"
