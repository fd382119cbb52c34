"""Jobs over the assets of one table: the same as those of Dagster, without a search in other tables."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.tables.assets.table_job import TableJob

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
@pytest.mark.parametrize("selected", ["a group", "one asset"])
def test_job_of_a_table_is_the_job_of_dagster(group: str, selected: str) -> None:
    groups = {"lake": [raw.key, clean.key], "reports": [report.key]}
    assets = groups[group] if selected == "a group" else groups[group][-1:]
    selection = dg.AssetSelection.assets(*assets)
    job = resolved(TableJob(assets, name="own", tags={"a": "b"}))
    expected = resolved(dg.define_asset_job("own", selection=selection, tags={"a": "b"}))
    assert job.get_job_snapshot_id() == expected.get_job_snapshot_id()
    layer, expected_layer = job.asset_layer.asset_graph, expected.asset_layer.asset_graph
    assert layer.executable_asset_keys == expected_layer.executable_asset_keys
    assert layer.asset_check_keys == expected_layer.asset_check_keys
    assert {key: layer.get(key).partitions_def for key in layer.get_all_asset_keys()} == {
        key: expected_layer.get(key).partitions_def for key in expected_layer.get_all_asset_keys()
    }


def test_job_of_a_table_searches_only_its_assets_and_what_they_read() -> None:
    job = resolved(TableJob([raw.key, clean.key], name="own"))
    graph = job.asset_layer.asset_graph.source_asset_graph
    assert graph.get_all_asset_keys() == {raw.key, clean.key}
    assert {key.name for key in graph.asset_check_keys} == {"no_gaps"}


def test_copy_of_a_job_in_a_dg_project_keeps_its_assets() -> None:
    job: Any = TableJob([raw.key, clean.key], name="own")
    copied = dg.Definitions(jobs=[job]).with_definition_metadata_update(lambda _: {"file": "defs.yaml"})
    graph = resolved(next(iter(copied.jobs or ()))).asset_layer.asset_graph.source_asset_graph
    assert graph.get_all_asset_keys() == {raw.key, clean.key}


def test_job_of_unknown_assets_fails() -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="Failed to resolve asset job own"):
        resolved(TableJob([dg.AssetKey("nowhere")], name="own"))
