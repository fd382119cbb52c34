"""What a plan records in the Dagster instance before its runs start."""

from __future__ import annotations

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, last_observation
from deltasnap_assets.runs.planning.names import GENERATION, STORING_ASSET, delta_log_key
from deltasnap_assets.runs.planning.plan import Plan, version_tags


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


@pytest.mark.parametrize(("began_after", "expected"), [(0, (3, "g")), (1, None)])
def test_newest_version_counts_only_if_it_is_of_this_table(began_after: int, expected: tuple[int, str] | None) -> None:
    instance, asset = dg.DagsterInstance.ephemeral(), dg.AssetKey(["events", STORING_ASSET])
    newest = dg.AssetMaterialization(asset, partition="3", metadata={GENERATION: "g"})
    instance.report_runless_asset_event(newest)
    event = instance.fetch_materializations(asset, limit=1).records[0].storage_id
    tags = version_tags("table-id", 3, event * began_after or None, ())
    apply_to_instance(instance, "events", Plan(observation=dg.AssetObservation(delta_log_key("events"), tags=tags)))
    assert known_of(instance, "events").newest == expected
