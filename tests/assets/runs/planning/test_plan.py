from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from sqlalchemy.exc import IntegrityError

from deltasnap_assets.runs.planning.forks import forks_of_text
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of
from deltasnap_assets.runs.planning.names import CONDITION_TAG, GENERATION, STORING_ASSET, table_key
from deltasnap_assets.runs.planning.partitions import key_of
from deltasnap_assets.runs.planning.plan import FORKS_TAG, Known, Plan, Stored, plan
from deltasnap_assets.settings.table_settings import ASSET_NAMES, Since, TableSettings
from deltasnap_core import LogStatus, Problem, ProblemKind, TableCondition, VersionRanges
from deltasnap_core.support import CommonVersion, LogRelation, ManifestName
from tests.assets.followed_table import EVENTS, materialize


def table(**settings: Any) -> TableSettings:
    return TableSettings(name="events", path="/tables/events", **settings)


def status(first: int, last: int, *, table_id: str = "g") -> LogStatus:
    return LogStatus(table_id=table_id, latest=last, versions=tuple(range(first, last + 1)))


def requested(todo: Plan) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    return todo.add, todo.ranges


def run(instance: dg.DagsterInstance, todo: Plan) -> None:
    """Apply a plan, and observe the table as its run does."""
    apply_to_instance(instance, EVENTS, todo)
    instance.report_runless_asset_event(todo.observation)


def test_first_poll_requests_the_oldest_versions_up_to_the_limit() -> None:
    todo = plan(table(max_versions_per_run=3), status(0, 9), Known())
    assert requested(todo) == ((0, 1, 2), ((0, 2),))
    assert todo.last == 2


def test_completed_versions_are_skipped_and_failed_ones_retried() -> None:
    known = Known(versions=(0, 1, 2, 3), done=frozenset({0, 1, 3}), table_id="g")
    assert requested(plan(table(), status(0, 5), known)) == ((4, 5), ((2, 2), (4, 5)))


def manifests(*versions: int) -> tuple[ManifestName, ...]:
    return tuple(ManifestName(generation="000001-g", version=version) for version in versions)


def stored(*versions: int, pruned_before: int = 0) -> Stored:
    relation = LogRelation.SAME if versions else LogRelation.NEW
    common = CommonVersion(
        relation=relation,
        version=max(versions, default=None),
        names=manifests(*versions),
        latest_in_log=5,
        table_id="g",
        pruned_before=pruned_before,
    )
    return Stored(common=common, versions=frozenset(versions))


def test_versions_that_the_store_lost_are_materialized_again_but_not_pruned_ones() -> None:
    # The versions 0 and 1 were pruned: their partitions are gone.
    known = Known(versions=(2, 3, 4, 5), done=frozenset(range(6)), table_id="g")
    assert requested(plan(table(), status(0, 5), known, stored())) == ((), ((2, 5),))
    only_done = replace(known, versions=())
    assert requested(plan(table(), status(0, 5), only_done, stored())) == ((0, 1, 2, 3, 4, 5), ((0, 5),))
    assert requested(plan(table(), status(0, 5), known, stored(2, 3, 5, pruned_before=2))) == ((), ((4, 4),))
    assert requested(plan(table(), status(0, 5), known, stored(2, 3, 4, 5, pruned_before=2))) == ((), ())
    assert requested(plan(table(), status(0, 5), known, stored(4, 5, pruned_before=4))) == ((), ())
    # The store did not prune them: it lost them, and Dagster lost their partitions.
    assert requested(plan(table(), status(0, 5), known, stored(2, 3, 4, 5))) == ((0, 1), ((0, 1),))
    assert requested(plan(table(), status(0, 5), known, None)) == ((), ())
    # It lost versions that the configuration no longer selects.
    unselected = plan(table(versions={"since": 4}), status(0, 5), known, stored(4, 5))
    assert (unselected.drop, *requested(unselected)) == ((), (), ())


def test_versions_that_the_store_and_the_log_lost_have_no_partition(caplog: pytest.LogCaptureFixture) -> None:
    known = Known(versions=(0, 1, 2, 3), done=frozenset({0, 1, 2, 3}), table_id="g")
    todo = plan(table(), status(2, 4), known, stored())  # the store was deleted after the log was cleaned up
    assert (todo.drop, *requested(todo)) == ((0, 1), (4,), ((2, 4),))
    apply_to_instance(dg.DagsterInstance.ephemeral(), EVENTS, todo)
    assert "events: versions are lost: 0 to 1. Neither the store nor the log has them" in caplog.text
    assert plan(table(), status(2, 4), replace(known, done=frozenset()), stored()).lost == (0, 1)  # wiped, too
    kept = plan(table(), status(2, 4), known, stored(0, 1, 2, 3))
    assert (kept.drop, *requested(kept)) == ((), (4,), ((4, 4),))
    assert not kept.lost
    new_only = plan(table(), status(4, 4), replace(known, done=frozenset({0, 1, 3})))
    assert (new_only.drop, *requested(new_only)) == ((), (4,), ((4, 4),))


@pytest.mark.parametrize(
    ("table_id", "versions"), [("new", (6,)), ("g", (6,)), ("new", (4, 5, 6))], ids=["another id", "same id", "all"]
)
def test_versions_pruned_from_an_earlier_table_are_wanted_again(table_id: str, versions: tuple[int, ...]) -> None:
    # Pruned before version 4. The run of version 6 began after the table was recreated: the stored log is the new one.
    known = Known(versions=(4, 5, 6), done=frozenset(range(7)), table_id="g")
    found = stored(*versions)
    anew = replace(found, common=replace(found.common, table_id=table_id))
    missing = {*range(8)}.difference(versions)
    todo = plan(table(), status(0, 7, table_id=table_id), known, anew)
    assert {version for first, last in todo.ranges for version in range(first, last + 1)} == missing


def test_versions_cleaned_up_between_two_polls_are_lost() -> None:
    known = Known(versions=(0, 1, 2), done=frozenset({0, 1, 2}), table_id="g")
    todo = plan(table(), status(6, 7), known, stored(0, 1, 2, 3))
    assert (todo.lost, *requested(todo)) == ((4, 5), (3, 6, 7), ((6, 7), (3, 3)))
    assert plan(table(versions=Since(since=5)), status(6, 7), known, stored(0, 1, 2)).lost == (5,)
    assert not plan(table(), status(6, 7), Known(), stored()).lost


def test_new_commits_continue_a_table_whose_id_was_replaced() -> None:
    # CREATE OR REPLACE: the schedule recorded the new id, and the cursor of the sensor has the old one.
    known = Known(versions=(0, 1), done=frozenset({0, 1}), table_id="new")
    todo = plan(table(), status(2, 2, table_id="old"), known)
    assert (todo.drop, *requested(todo)) == ((), (2,), ((2, 2),))
    assert todo.observation.tags["deltasnap/generation"] == "new"


def test_stored_version_that_lost_its_partition_gets_it_back() -> None:
    known = Known(versions=(0, 1), done=frozenset({0, 1, 2}), table_id="g")
    assert requested(plan(table(), status(0, 2), known, stored(0, 1, 2))) == ((2,), ())
    pruned = replace(known, versions=(1, 2))
    assert requested(plan(table(), status(0, 2), pruned, stored(1, 2, pruned_before=1))) == ((), ())


@pytest.mark.parametrize("versions", [(0, 1, 2, 3), ()], ids=["wiped", "new instance"])
def test_versions_that_only_the_store_has_are_materialized_again_in_a_separate_run(versions: tuple[int, ...]) -> None:
    known = Known(versions=versions, table_id="g")
    todo = plan(table(max_versions_per_run=3), status(2, 3), known, stored(0, 1, 2, 3))
    assert (todo.drop, todo.lost, todo.ranges, todo.num_left) == ((), (), ((2, 3), (0, 0)), 1)
    assert plan(table(versions={"since": 1}), status(2, 3), known, stored(0, 1, 2, 3)).ranges == ((2, 3), (1, 1))
    # The log was replaced: the stored versions are those of another table.
    other = stored(0, 1, 2, 3)
    other = replace(other, common=replace(other.common, relation=LogRelation.RECREATED, version=None))
    assert plan(table(), status(2, 3), replace(known, table_id=None), other).ranges == ((2, 3),)


def test_version_that_cannot_be_loaded_and_is_not_done_has_no_partition() -> None:
    known = Known(versions=(0, 1, 2, 3), done=frozenset({0, 1, 2}), table_id="g")
    fault = Problem(kind=ProblemKind.CORRUPT_COMMIT, versions=VersionRanges(((2, 3),)))
    damaged = TableCondition(table="events", latest=3, loadable=VersionRanges(((0, 1),)), faults=(fault,))
    todo = plan(table(), replace(status(0, 1), latest=3, condition=damaged), known, stored(0, 1, 2))
    assert (todo.drop, *requested(todo)) == ((3,), (), ())
    done = replace(known, done=frozenset(range(4)))  # the store lost versions that were materialized
    assert plan(table(), replace(status(0, 1), latest=3, condition=damaged), done, stored(0, 1)).lost == (2, 3)


def test_version_that_the_configuration_no_longer_selects_and_is_not_done_has_no_partition() -> None:
    known = Known(versions=(0, 1, 2, 3), done=frozenset({1}), table_id="g")
    todo = plan(table(versions={"since": 3}), status(0, 4), known)
    assert (todo.drop, *requested(todo)) == ((0, 2), (4,), ((3, 4),))


def test_observation_of_a_plan_has_no_credentials() -> None:
    lake = TableSettings(name="events", path="s3://key:hunter2@lake/events")
    assert "hunter2" not in repr(plan(lake, status(0, 1), Known()).observation)


def test_plan_without_new_versions_is_empty() -> None:
    todo = plan(table(), status(0, 1), Known(versions=(0, 1), done=frozenset({0, 1}), table_id="g"))
    assert (requested(todo), todo.last) == (((), ()), None)


def test_late_versions_get_separate_runs() -> None:
    known = Known(versions=(10, 11), done=frozenset({10, 11}), table_id="g")
    assert requested(plan(table(), status(8, 13), known)) == ((8, 9, 12, 13), ((8, 9), (12, 13)))


CHOICES = {
    "all": ("all", Known(), status(3, 6), (3, 4, 5, 6)),
    "since": (Since(since=5), Known(), status(3, 6), (5, 6)),
    "since a version to come": (Since(since=9), Known(), status(3, 6), ()),
    "latest": ("latest", Known(), status(3, 6), (6,)),
    "latest, later": ("latest", Known(versions=(6,), done=frozenset({6}), table_id="g"), status(3, 8), (7, 8)),
}


@pytest.mark.parametrize("case", CHOICES)
def test_configuration_chooses_the_versions(case: str) -> None:
    versions, known, seen, expected = CHOICES[case]
    assert plan(table(versions=versions), seen, known).add == expected


def test_recreated_table_starts_over_and_drops_the_partitions_that_do_not_return() -> None:
    known = Known(versions=(0, 1, 2, 3), done=frozenset({0, 1, 2, 3}), table_id="old", last_materialization=77)
    todo = plan(table(), status(0, 1, table_id="new"), known, stored())
    assert (todo.drop, *requested(todo)) == ((2, 3), (), ((0, 1),))


def test_recreated_table_starts_over_though_a_run_was_killed_before_it_observed_the_table() -> None:
    known = Known(versions=(0, 1), done=frozenset({0, 1}))
    found = stored(0, 1)
    anew = replace(found, common=replace(found.common, relation=LogRelation.RECREATED, version=None))
    assert plan(table(), status(0, 1, table_id="new"), known, anew).ranges == ((0, 1),)
    assert plan(table(), status(0, 1), known, found).ranges == ()


def test_restored_table_starts_over_and_drops_the_partitions_that_do_not_return() -> None:
    known = Known(versions=(0, 1, 2, 3), done=frozenset({0, 1, 2, 3}), table_id="g", last_materialization=77)
    todo = plan(table(), replace(status(0, 2), is_fork=True), known, stored())
    assert (todo.drop, *requested(todo)) == ((3,), (), ((0, 2),))


@pytest.mark.parametrize(
    ("generations", "again"),
    [
        ((("000001-g", None),), ()),
        ((("000002-g", None), ("000001-g", 3)), ()),
        ((("000002-g", None), ("000001-g", 1)), ((2, 3),)),
        ((("000002-g", None),), ((0, 3),)),
    ],
)
def test_only_versions_of_the_stored_generation_and_those_it_shares_are_done(
    generations: tuple[tuple[str, int | None], ...], again: tuple[tuple[int, int], ...]
) -> None:
    instance, seen = dg.DagsterInstance.ephemeral(), stored(0, 1, 2, 3)
    run(instance, plan(table(), status(0, 3), Known()))
    materialize(instance, range(4))
    newest = dg.AssetMaterialization(
        dg.AssetKey(["events", STORING_ASSET]), partition="3", metadata={GENERATION: "000001-g"}
    )
    instance.report_runless_asset_event(newest)
    seen = replace(seen, common=replace(seen.common, latest_in_log=3, generations=generations))
    todo = plan(table(), status(0, 3), known_of(instance, EVENTS), seen)
    assert (todo.drop, *requested(todo)) == ((), (), again)


def forked_after_3() -> Stored:
    common = CommonVersion(
        relation=LogRelation.FORKED, version=3, names=manifests(*range(6)), latest_in_log=5, table_id="g"
    )
    return Stored(common=common, versions=frozenset(common.current))


def test_versions_after_a_fork_are_materialized_again_or_dropped() -> None:
    known = Known(versions=(0, 1, 2, 3, 4, 5), done=frozenset(range(6)), table_id="g")
    todo = plan(table(), status(0, 5), known, forked_after_3())
    assert (todo.drop, *requested(todo)) == ((), (), ((4, 5),))
    rolled_back = plan(table(), status(0, 3), known, stored(0, 1, 2, 3))
    assert (rolled_back.drop, *requested(rolled_back)) == ((4, 5), (), ())


def test_forks_at_the_same_version_have_different_data_versions_once_a_version_was_materialized() -> None:
    forked = forked_after_3()

    def tags(known: Known) -> dict[str, str]:
        return dict(plan(table(), status(0, 5), known, forked).observation.tags)

    known = Known(versions=(0, 1, 2, 3, 4, 5), table_id="g", last_materialization=70)
    assert plan(table(), status(0, 5), known, forked).ranges == ((0, 5),)
    first = tags(known)
    planned = replace(known, forks=forks_of_text(first[FORKS_TAG]))
    assert tags(planned) == first
    later = tags(replace(planned, last_materialization=90))
    assert (first["dagster/data_version"], later["dagster/data_version"]) == (
        "5 after 1 forks, the last at 3 after event 70",
        "5 after 1 forks, the last at 3 after event 90",
    )


def test_data_version_names_the_last_of_several_forks() -> None:
    earlier = forks_of_text("1.50")
    known = Known(versions=(0, 1, 2, 3, 4, 5), table_id="g", last_materialization=70, forks=earlier)
    tags = plan(table(), status(0, 5), known, forked_after_3()).observation.tags
    assert (tags["dagster/data_version"], tags[FORKS_TAG]) == (
        "5 after 2 forks, the last at 3 after event 70",
        "1.50_3.70",
    )


def test_partitions_that_another_process_adds_at_the_same_time_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = dg.DagsterInstance.ephemeral()
    add_partitions = instance.add_dynamic_partitions

    def too_late(partitions: str, keys: Sequence[str]) -> None:
        monkeypatch.undo()
        add_partitions(partitions, keys[:2])
        raise IntegrityError("insert", {}, Exception("UNIQUE constraint failed"))

    monkeypatch.setattr(instance, "add_dynamic_partitions", too_late)
    apply_to_instance(instance, EVENTS, plan(table(), status(0, 3), Known()))
    assert instance.get_dynamic_partitions("events_versions") == [key_of(version) for version in range(4)]


def test_instance_provides_partitions_materializations_and_table_id() -> None:
    instance = dg.DagsterInstance.ephemeral()
    assert known_of(instance, EVENTS) == Known()
    run(instance, plan(table(), status(8, 11), Known()))
    instance.add_dynamic_partitions("events_versions", ["by hand"])
    materialize(instance, [8, 9])
    materialize(instance, [10], ASSET_NAMES[:2])
    known = known_of(instance, EVENTS)
    assert (known.versions, known.done, known.table_id) == ((8, 9, 10, 11), frozenset({8, 9}), "g")


def test_materializations_of_a_dropped_table_do_not_count_for_its_successor() -> None:
    instance = dg.DagsterInstance.ephemeral()
    run(instance, plan(table(), status(0, 3), Known()))
    materialize(instance, range(4))
    anew = status(0, 3, table_id="new")
    for done in (frozenset[int](), frozenset({0})):
        todo = plan(table(max_versions_per_run=1), anew, known_of(instance, EVENTS), stored(*done))
        apply_to_instance(instance, EVENTS, todo)
        known = known_of(instance, EVENTS)
        assert (known.table_id, known.done) == ("new", done)
        materialize(instance, [len(done)])
    assert known_of(instance, EVENTS).versions == (0, 1)


def test_identity_of_a_new_table_is_recorded_on_its_last_page_before_a_run_that_may_fail() -> None:
    instance = dg.DagsterInstance.ephemeral()
    run(instance, plan(table(), status(0, 3), Known()))
    page = dg.AssetObservation(
        table_key(EVENTS), metadata={"num_files": 7}, tags={"dagster/data_version": "3", "deltasnap/generation": "g"}
    )
    instance.report_runless_asset_event(page)
    materialize(instance, range(4))
    todo = plan(table(), status(0, 3, table_id="new"), known_of(instance, EVENTS), stored())
    for _ in range(2):
        apply_to_instance(instance, EVENTS, todo)
    (last, before) = instance.fetch_observations(table_key(EVENTS), limit=2).records
    assert last.asset_observation is not None
    assert (before.asset_observation, last.asset_observation.metadata) == (page, page.metadata)
    assert last.asset_observation.tags["dagster/data_version"] == "3"  # nothing downstream is triggered yet
    known = known_of(instance, EVENTS)
    assert (known.table_id, known.done) == ("new", frozenset())


def test_observation_carries_the_latest_commit_as_data_version() -> None:
    observation = plan(table(), status(0, 7), Known()).observation
    assert observation.asset_key == table_key(EVENTS)
    assert observation.data_version == "7"


def test_plan_is_observed_again_only_if_it_differs_whatever_the_condition_of_the_table() -> None:
    instance = dg.DagsterInstance.ephemeral()
    done = Known(versions=(0, 1), done=frozenset({0, 1}), table_id="g")
    first = plan(table(), status(0, 1), done)
    tags = {**first.observation.tags, CONDITION_TAG: "a_fault"}
    instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), tags=tags))
    for todo, expected in ((first, 1), (plan(table(), status(0, 2), done), 2)):
        apply_to_instance(instance, EVENTS, replace(todo, ranges=()))
        assert len(instance.fetch_observations(table_key(EVENTS), limit=9).records) == expected


IDS = ["", "a b/c", "x" * 5000, "\ud800", "\x00", "größe"]


@pytest.mark.parametrize("table_id", IDS, ids=range(len(IDS)))
def test_every_id_of_a_table_can_be_observed(table_id: str) -> None:
    instance = dg.DagsterInstance.ephemeral()
    seen = status(0, 1, table_id=table_id)
    run(instance, plan(table(), seen, Known()))
    known = known_of(instance, EVENTS)
    assert plan(table(), seen, known).drop == ()
    recreated = plan(table(), status(0, 1, table_id=table_id + "2"), known, stored())
    assert recreated.observation.tags["deltasnap/generation"] != known.table_id


def test_first_unread_version_follows_the_earliest_run_of_stored_ones() -> None:
    assert [stored(*versions).first_unread for versions in ((), (0,), (3, 4, 5), (0, 1, 4))] == [0, 1, 6, 2]


def test_stored_versions_after_the_last_common_one_are_not_of_this_log() -> None:
    common = CommonVersion(relation=LogRelation.FORKED, version=2, names=manifests(*range(4)), latest_in_log=5)
    assert Stored(common=common, versions=frozenset(range(4))).sound == VersionRanges(((0, 2),))
    none = CommonVersion(relation=LogRelation.FORKED, version=None, names=manifests(0, 1), latest_in_log=5)
    assert Stored(common=none, versions=frozenset(range(2))).first_unread == 0


@pytest.mark.parametrize(
    ("in_store", "expected"),
    [((0, 1, 2, 3), ((1, 2),)), ((0, 1), ((1, 1),)), ((3,), ())],
    ids=["stored", "one is stored", "pruned"],
)
def test_versions_shown_as_failed_are_done_again(
    in_store: tuple[int, ...], expected: tuple[tuple[int, int], ...]
) -> None:
    done = frozenset({0, 1, 2, 3})
    known = Known(versions=(0, 1, 2, 3), done=done, table_id="g", failed=frozenset({1, 2}))
    kept = stored(*in_store, pruned_before=4)
    assert plan(table(), status(0, 3), known, kept).ranges == expected
    assert plan(table(), status(0, 3), replace(known, failed=frozenset()), kept).ranges == ()


def test_stored_version_shown_as_failed_waits_while_it_lacks_a_file_that_only_the_store_had() -> None:
    known = Known(versions=(0, 1), done=frozenset({0, 1}), table_id="g", failed=frozenset({0, 1}))
    kept = replace(stored(0, 1), unreadable={0: "changes/0.parquet is missing"})
    assert plan(table(), status(1, 1), known, kept).ranges == ((1, 1),)
