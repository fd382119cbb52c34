"""What a plan records in the Dagster instance before its runs start."""

from __future__ import annotations

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.known_table import apply_to_instance, last_observation
from deltasnap_assets.runs.planning.names import delta_log_key
from deltasnap_assets.runs.planning.plan import Plan


@pytest.mark.parametrize(
    ("is_damaged", "ranges", "expected"),
    [(False, (), "2"), (True, (), "1"), (False, ((1, 2),), "1")],
    ids=["nothing to run", "damaged", "a run will record it"],
)
def test_plan_records_its_observation_unless_a_run_does_or_the_table_is_damaged(
    is_damaged: bool, ranges: tuple[tuple[int, int], ...], expected: str
) -> None:
    instance = dg.DagsterInstance.ephemeral()

    def seen(version: str) -> dg.AssetObservation:
        return dg.AssetObservation(delta_log_key("events"), tags={"dagster/data_version": version})

    apply_to_instance(instance, "events", Plan(observation=seen("1"), is_damaged=is_damaged))
    apply_to_instance(instance, "events", Plan(observation=seen("2"), is_damaged=is_damaged, ranges=ranges))
    last = last_observation(instance, "events")
    assert last is not None
    assert last.tags["dagster/data_version"] == expected
