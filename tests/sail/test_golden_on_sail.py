"""The golden tests on Sail: those of Spark for some tables, and the latest version of every table in every field."""

# ruff: noqa: F811 - the fixture `log_of`

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("tests.sail.client", reason="needs an environment of constraints-sail.txt", exc_type=ImportError)
from tests.core.test_golden import (  # noqa: F401
    KEEP_ALL,
    TABLES,
    LogOf,
    log_of,
    pytestmark,
    test_golden_range_pass_returns_the_counts_of_every_version,
    test_golden_versions_are_as_expected_in_every_field,
    test_golden_versions_without_a_state_are_rejected_by_category,
    test_unreadable_golden_tables_still_have_protocol_metadata_and_history,
)
from tests.golden import expected_facts, facts
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltasnap_core import Snapshot
    from tests.golden import GoldenTable

WITH_STATE = [table for table in TABLES if not table.latest_refusal]


def latest(table: GoldenTable, log_of: LogOf) -> Snapshot:
    return log_of(table).get_snapshot_at(table.expected["latest_version"], min_file_retention_timestamp=KEEP_ALL)


@pytest.mark.parametrize("table", WITH_STATE, ids=lambda table: table.name)
def test_golden_latest_version_is_as_expected_in_every_field(table: GoldenTable, log_of: LogOf) -> None:
    assert facts(latest(table, log_of)) == expected_facts(table.expected["latest"])


@pytest.mark.parametrize("table", one_in(8, WITH_STATE), ids=lambda table: table.name)
def test_golden_files_match_the_state(table: GoldenTable, log_of: LogOf) -> None:
    snapshot, state = latest(table, log_of), table.expected["latest"]
    found = [sum(1 for row in frame.select("path").collect() if row.path) for frame in frames_of(snapshot)]
    assert found == [frame.count() for frame in frames_of(snapshot)] == [len(state["files"]), len(state["tombstones"])]


def frames_of(snapshot: Snapshot) -> tuple[DataFrame, DataFrame]:
    return snapshot.all_files, snapshot.tombstones
