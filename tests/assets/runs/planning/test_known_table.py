"""What is known about a table: in the Dagster instance, after damage, and after forks."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.forks import Fork, forks_of_text, forks_text, materialized_since, with_fork
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, last_observation
from deltasnap_assets.runs.planning.log_status import read_status, stored_state
from deltasnap_assets.runs.planning.names import CONDITION_TAG, GENERATION, STORING_ASSET, table_key
from deltasnap_assets.runs.planning.plan import Plan, version_tags
from deltasnap_assets.runs.table_runs import failed_run as last_failed_run
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TABLE_TAG
from tests.assets.followed_table import EVENTS, materialize
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks, failed_run
from tests.builders import add, write_log


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


@pytest.mark.slow
def test_damage_before_a_checkpoint_blocks_only_its_versions(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=5)
    ticks.checkpoint(5)
    ticks.damage(3)
    ticks.store_versions([0, 1, 2, 5])
    ticks.write(6, 7)
    status, _ = read_status(ticks.settings, ticks.table, examine=True)
    assert status.versions == (0, 1, 2, 5, 6, 7)
    assert status.condition is not None
    assert status.condition.unloadable == (3, 4)
    ticks.instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), tags={CONDITION_TAG: "a-fault"}))
    assert ticks.tick() == [("0", "2"), ("5", "7")]


def test_stored_state_of_a_version_after_a_fork_does_not_count(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "t", last=2)
    ticks.store_versions(range(3), computed=True)
    write_log(tmp_path / "t", {2: [add("another")]})
    _, stored = read_status(ticks.settings, ticks.table)
    states = [stored_state(ticks.settings, ticks.table, stored, version) for version in range(3)]
    assert [state and state.num_of_files for state in states] == [1, 2, None]


def test_failed_run_stays_the_last_one_when_the_store_is_pruned(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path)
    run_id = failed_run(ticks.instance, 0, 3)
    prune = ticks.instance.create_run_for_job(idle_job, tags={TABLE_TAG: "events"})
    ticks.instance.report_run_failed(prune, "No access")
    ticks.instance.create_run_for_job(idle_job, tags={TABLE_TAG: "events"}, status=dg.DagsterRunStatus.SUCCESS)
    found = last_failed_run(ticks.instance, EVENTS)
    assert found is not None
    assert found.where.name == run_id


FORKS = (Fork(version=3, after_event=100), Fork(version=5, after_event=200))
# The materialized versions, by the preceding event.
MATERIALIZED = {None: {0, 1, 2, 3, 4, 5, 6, 7}, 50: {2, 3, 4, 5, 6, 7}, 100: {3, 5, 6}, 200: {6}}


def materialized_after(event: int | None) -> frozenset[int]:
    return frozenset(MATERIALIZED[event])


@pytest.mark.parametrize(
    ("forks", "began_after", "expected"),
    [
        ((), None, {0, 1, 2, 3, 4, 5, 6, 7}),
        (FORKS[:1], None, {0, 1, 2, 3, 5, 6}),
        (FORKS[1:], None, {0, 1, 2, 3, 4, 5, 6}),
        (FORKS, 50, {2, 3, 5, 6}),
        ((Fork(version=6, after_event=100),), 50, {2, 3, 4, 5, 6}),
    ],
)
def test_version_after_a_fork_counts_only_if_it_was_materialized_since(
    forks: tuple[Fork, ...], began_after: int | None, expected: set[int]
) -> None:
    assert materialized_since(forks, began_after, materialized_after) == expected


def test_fork_replaces_forks_at_later_versions() -> None:
    assert with_fork(FORKS, 5, 300) == (FORKS[0], Fork(version=5, after_event=300))
    assert with_fork(FORKS, 6, 300) == (*FORKS, Fork(version=6, after_event=300))
    assert with_fork(FORKS, 4, 300) == (FORKS[0], Fork(version=4, after_event=300))
    assert with_fork(FORKS, 3, 300) == (Fork(version=3, after_event=300),)


def test_fork_is_the_same_until_a_version_is_materialized() -> None:
    assert with_fork(FORKS, 5, 200) == FORKS


def test_oldest_of_many_forks_are_merged() -> None:
    three = with_fork(FORKS, 7, 300)
    assert len(three) == 3
    assert with_fork(three, 9, 400) == (Fork(version=3, after_event=200), *three[2:], Fork(version=9, after_event=400))


def test_forks_are_read_from_their_text() -> None:
    assert forks_text(FORKS) == "3.100_5.200"
    assert forks_of_text("3.100_5.200") == FORKS
    assert forks_of_text(None) == forks_of_text("") == ()
