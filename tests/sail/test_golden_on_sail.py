"""The golden tests on Sail: the tests of Spark, with a Sail session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("tests.sail.client", reason="needs an environment of constraints-sail.txt", exc_type=ImportError)
from tests.core.test_golden import *  # noqa: F403
from tests.core.test_golden import KEEP_ALL, TABLES, LogOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltasnap_core import Snapshot
    from tests.golden import GoldenTable


@pytest.mark.parametrize("table", [t for t in TABLES if not t.latest_refusal], ids=lambda table: table.name)
def test_golden_files_match_the_state(table: GoldenTable, log_of: LogOf) -> None:
    state = table.expected["latest"]
    snapshot = log_of(table).get_snapshot_at(table.expected["latest_version"], min_file_retention_timestamp=KEEP_ALL)
    found = [sum(1 for row in frame.select("path").collect() if row.path) for frame in frames_of(snapshot)]
    assert found == [frame.count() for frame in frames_of(snapshot)] == [len(state["files"]), len(state["tombstones"])]


def frames_of(snapshot: Snapshot) -> tuple[DataFrame, DataFrame]:
    return snapshot.all_files, snapshot.tombstones
