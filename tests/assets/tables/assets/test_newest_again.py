from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.forks import Fork
from deltasnap_assets.runs.planning.known_table import apply_to_instance
from deltasnap_assets.runs.planning.names import delta_log_key
from deltasnap_assets.runs.planning.plan import BEGAN_AFTER_TAG, Plan, observation_of
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.tables.assets.newest_again import newest_again
from deltasnap_core import LogStatus

FILES = dg.AssetKey(["events", "all_files"])


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def store(instance: dg.DagsterInstance, *versions: int) -> None:
    instance.add_dynamic_partitions("events_versions", [str(version) for version in versions])
    for version in versions:
        instance.report_runless_asset_event(
            dg.AssetMaterialization(FILES, partition=str(version), metadata={"number": version})
        )


def again(instance: dg.DagsterInstance, *versions: int) -> tuple[str | None, object] | None:
    found = newest_again(instance, FILES, {version: {"number": dg.MetadataValue.int(version)} for version in versions})
    return None if found is None else (found.partition, found.metadata["number"].value)


def test_newest_of_a_range_is_recorded_again(instance: dg.DagsterInstance) -> None:
    store(instance, 1, 2, 10)
    assert again(instance, 1, 2, 10) == ("10", 10)


def test_newest_of_a_range_is_recorded_with_the_entries_of_this_run(instance: dg.DagsterInstance) -> None:
    store(instance, 1, 2)
    found = newest_again(instance, FILES, {1: {}, 2: {"number": dg.MetadataValue.int(20)}})
    assert found is not None
    assert (found.partition, found.metadata["number"].value) == ("2", 20)
    assert found.description == "The newest version of this run, recorded again."


def test_single_newest_version_is_recorded_once(instance: dg.DagsterInstance) -> None:
    store(instance, 1, 2)
    assert again(instance, 2) is None


def test_newest_of_all_is_recorded_after_a_run_of_old_versions(instance: dg.DagsterInstance) -> None:
    store(instance, 0, 1, 9, 10)
    assert again(instance, 0, 1) == again(instance, 0) == ("10", 10)


def test_partition_that_is_not_a_version_or_not_materialized_does_not_count(instance: dg.DagsterInstance) -> None:
    store(instance, 0, 1)
    instance.add_dynamic_partitions("events_versions", ["abc", "11"])
    assert again(instance, 1) is None


def test_versions_of_a_dropped_table_do_not_count(instance: dg.DagsterInstance) -> None:
    store(instance, 0, 9)
    (last,) = instance.fetch_materializations(FILES, limit=1).records
    instance.report_runless_asset_event(
        dg.AssetObservation(delta_log_key("events"), tags={BEGAN_AFTER_TAG: str(last.storage_id)})
    )
    assert again(instance, 0) is None


def test_versions_of_a_log_before_its_fork_do_not_count(instance: dg.DagsterInstance) -> None:
    store(instance, 0, 3, 9)
    (last,) = instance.fetch_materializations(FILES, limit=1).records
    status = LogStatus(table_id="g", latest=9, versions=(0, 3, 9))
    forked = Plan(
        observation=observation_of(
            TableSettings(name="events", path="/t"), status, None, (Fork(version=0, after_event=last.storage_id),)
        ),
        ranges=((3, 3), (9, 9)),
    )
    apply_to_instance(instance, "events", forked)  # the runs, not the plan, will record an observation
    store(instance, 3)
    assert again(instance, 3) is None
