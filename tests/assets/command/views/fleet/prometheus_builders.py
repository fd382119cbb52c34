"""Builders for the tests of prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.stored_fleet import store_table
from deltasnap_core import SnapshotStore
from deltasnap_core.support import LastPoll

DAY = 24 * 3_600_000


NOW = 100 * DAY


def rows(folder: Path) -> list[dict[str, Any]]:
    for name in ("events", "orders"):
        store_table(folder, name, [(NOW - 40 * DAY, 1), (NOW - 2 * DAY, 2), (NOW - DAY, 5), (NOW - DAY, 5), (NOW, 6)])
    store = SnapshotStore.open(None, folder)
    store.polls.write(
        "events", LastPoll(polled_at_ms=NOW, latest_version=4, checked_version=4, facts_version=4, vacuum_bytes=7)
    )
    found: list[dict[str, Any]] = store.fleet(now_ms=NOW).to_pylist()
    return found
