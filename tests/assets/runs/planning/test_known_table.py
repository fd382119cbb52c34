"""What a plan records in the Dagster instance before its runs start."""

from __future__ import annotations

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, last_observation
from deltasnap_assets.runs.planning.names import GENERATION, STORING_ASSET, table_key
from deltasnap_assets.runs.planning.plan import Plan, version_tags
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from tests.assets.followed_table import EVENTS, materialize


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
        return dg.AssetObservation(table_key(EVENTS), tags={"dagster/data_version": version})

    apply_to_instance(instance, EVENTS, Plan(observation=seen("1"), is_damaged=is_damaged))
    apply_to_instance(instance, EVENTS, Plan(observation=seen("2"), is_damaged=is_damaged, ranges=ranges))
    last = last_observation(instance, EVENTS)
    assert last is not None
    assert last.tags["dagster/data_version"] == expected


def materialize_in(instance: dg.DagsterInstance, generation: str, *versions: int) -> None:
    """Record materializations of the table `events`, whose versions are stored in a generation."""
    materialize(instance, versions, [name for name in ASSET_NAMES if name != STORING_ASSET])
    for version in versions:
        asset = dg.AssetKey(["events", STORING_ASSET])
        event = dg.AssetMaterialization(asset, partition=str(version), metadata={GENERATION: generation})
        instance.report_runless_asset_event(event)


def test_newest_version_is_the_highest_one_whichever_was_recorded_last() -> None:
    instance = dg.DagsterInstance.ephemeral()
    assert known_of(instance, EVENTS).newest is None
    materialize_in(instance, "old", 10, 9, 2)
    materialize_in(instance, "new", 10)
    materialize_in(instance, "old", 1)
    assert known_of(instance, EVENTS).newest == (10, "new")
    materialize(instance, [11])
    assert known_of(instance, EVENTS).newest is None  # an earlier release recorded no generation


@pytest.mark.parametrize(("began_after", "expected"), [(0, (3, "g")), (1, None)])
def test_newest_version_counts_only_if_it_is_of_this_table(began_after: int, expected: tuple[int, str] | None) -> None:
    instance, asset = dg.DagsterInstance.ephemeral(), dg.AssetKey(["events", STORING_ASSET])
    materialize_in(instance, "g", 3)
    event = instance.fetch_materializations(asset, limit=1).records[0].storage_id
    tags = version_tags("table-id", 3, event * began_after or None, ())
    apply_to_instance(instance, EVENTS, Plan(observation=dg.AssetObservation(table_key(EVENTS), tags=tags)))
    assert known_of(instance, EVENTS).newest == expected
