"""The rows that commits added, by day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import TableLog
from deltasnap_core.log.commits.daily_rows import DailyRows
from tests.builders import add, commit_info, metadata, protocol, remove, write_log

DAY = 24 * 3_600_000


def stats(records: int) -> dict[str, Any]:
    return {"stats": json.dumps({"numRecords": records})}


def daily(table: Path, times: dict[int, int], now_ms: int) -> DailyRows:
    log = TableLog.for_path(str(table))
    return DailyRows(store=log.store, commits=log.list().commits, times_ms=times, now_ms=now_ms)


def test_day_has_the_rows_of_the_files_that_its_commits_add(tmp_path: Path) -> None:
    first = [protocol(), metadata(), add("a", **stats(1))]
    commits = {0: first, 1: [add("b", **stats(2)), add("c", **stats(4))], 2: [add("d", **stats(8)), remove("a")]}
    write_log(tmp_path, commits)
    found = daily(tmp_path, {0: 0, 1: DAY, 2: DAY + 1}, now_ms=2 * DAY)
    assert ([found.of(day) for day in range(4)], found.whole_days) == ([8, 6, 1, 0], 2)


def test_commit_that_changes_no_data_adds_no_rows(tmp_path: Path) -> None:
    moved = [remove("a", dataChange=False), add("b", dataChange=False, **stats(5))]
    write_log(tmp_path, {0: [protocol(), metadata(), add("a", **stats(5))], 1: [commit_info("OPTIMIZE"), *moved]})
    assert daily(tmp_path, {1: 0}, now_ms=0).of(0) == 0


def test_file_that_only_gets_a_deletion_vector_adds_no_rows(tmp_path: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 4, "cardinality": 1}
    first = [protocol(3, 7, readerFeatures=["deletionVectors"]), metadata(), add("a", **stats(5))]
    write_log(tmp_path, {0: first, 1: [remove("a"), add("a", deletionVector=vector, **stats(5)), add("b", **stats(2))]})
    assert daily(tmp_path, {1: 0}, now_ms=0).of(0) == 2


@pytest.mark.parametrize("unknown", [{}, {"stats": "{}"}, {"stats": "no JSON"}])
def test_rows_of_a_day_with_a_file_without_their_number_are_unknown(unknown: dict[str, Any], tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a", **stats(1)), add("b", **unknown)]})
    assert daily(tmp_path, {0: 0}, now_ms=0).of(0) is None


def test_log_without_commits_has_no_whole_day(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()]})
    found = daily(tmp_path, {}, now_ms=DAY)
    assert (found.whole_days, found.of(0)) == (0, 0)
