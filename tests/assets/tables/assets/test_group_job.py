"""Jobs over the assets of one group: the same as those of Dagster, without a search in other groups."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.tables.assets.group_job import GroupJob

DAYS = dg.DailyPartitionsDefinition("2026-01-01")


@dg.asset(group_name="lake", partitions_def=DAYS)
def raw() -> None: ...


@dg.asset(group_name="lake", deps=[raw], partitions_def=DAYS)
def clean() -> None: ...


@dg.asset(group_name="reports", deps=[clean, "elsewhere"], partitions_def=DAYS)
def report() -> None: ...


@dg.asset_check(asset=report, additional_deps=[raw])
def complete() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@dg.asset_check(asset=clean)
def no_gaps() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


def resolved(job: Any) -> dg.JobDefinition:
    defs = dg.Definitions(assets=[raw, clean, report], asset_checks=[complete, no_gaps], jobs=[job])
    return defs.resolve_job_def("own")


@pytest.mark.parametrize("group", ["lake", "reports"])
@pytest.mark.parametrize("selected", ["the group", "one asset"])
def test_job_of_a_group_is_the_job_of_dagster(group: str, selected: str) -> None:
    keys = {"lake": "clean", "reports": "report"}
    groups = dg.AssetSelection.groups(group)
    selection = groups if selected == "the group" else dg.AssetSelection.assets(keys[group])
    job = resolved(GroupJob(group, name="own", selection=selection, tags={"a": "b"}))
    expected = resolved(dg.define_asset_job("own", selection=selection, tags={"a": "b"}))
    assert job.get_job_snapshot_id() == expected.get_job_snapshot_id()
    layer, expected_layer = job.asset_layer.asset_graph, expected.asset_layer.asset_graph
    assert layer.executable_asset_keys == expected_layer.executable_asset_keys
    assert layer.asset_check_keys == expected_layer.asset_check_keys
    assert {key: layer.get(key).partitions_def for key in layer.get_all_asset_keys()} == {
        key: expected_layer.get(key).partitions_def for key in expected_layer.get_all_asset_keys()
    }


def test_job_of_a_group_searches_only_the_group_and_what_it_reads() -> None:
    job = resolved(GroupJob("lake", name="own", selection=dg.AssetSelection.groups("lake")))
    graph = job.asset_layer.asset_graph.source_asset_graph
    assert graph.get_all_asset_keys() == {raw.key, clean.key}
    assert {key.name for key in graph.asset_check_keys} == {"no_gaps"}


def test_copy_of_a_job_in_a_dg_project_keeps_its_group() -> None:
    job: Any = GroupJob("lake", name="own", selection=dg.AssetSelection.groups("lake"))
    copied = dg.Definitions(jobs=[job]).with_definition_metadata_update(lambda _: {"file": "defs.yaml"})
    graph = resolved(next(iter(copied.jobs or ()))).asset_layer.asset_graph.source_asset_graph
    assert graph.get_all_asset_keys() == {raw.key, clean.key}


def test_job_of_an_unknown_group_has_no_assets() -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Failed to resolve asset job own"):
        resolved(GroupJob("other", name="own", selection=dg.AssetSelection.assets("clean")))
