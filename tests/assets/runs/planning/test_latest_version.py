from __future__ import annotations

from importlib.metadata import version

import dagster as dg
import pytest

import dagster_deltasnap
import deltasnap_assets
import deltasnap_core
from deltasnap_assets import LatestVersion
from deltasnap_assets.runs.planning.partitions import version_partitions

KEYS = ["10", "0", "9", "abc", "2"]


def instance_with(keys: list[str]) -> dg.DagsterInstance:
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("events_versions", keys)
    return instance


class _Keys(dg.IOManager):
    """Returns the partition keys that would be loaded."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        pass

    def load_input(self, context: dg.InputContext) -> list[str]:
        return list(context.asset_partition_keys)


@dg.asset(key=["events", "all_files"], partitions_def=version_partitions("events"), io_manager_key="keys")
def all_files() -> None: ...


def definitions(partitions_def: dg.PartitionsDefinition | None = None) -> dg.Definitions:
    upstream = dg.AssetIn(["events", "all_files"], partition_mapping=LatestVersion())

    @dg.asset(ins={"keys": upstream}, partitions_def=partitions_def)
    def report(keys) -> list[str]:  # type: ignore[no-untyped-def] # Dagster takes no annotation that is text
        return keys  # type: ignore[no-any-return]

    return dg.Definitions(assets=[all_files, report], resources={"keys": _Keys()})


@pytest.mark.parametrize("partitions_def", [None, dg.StaticPartitionsDefinition(["1", "x"])], ids=["none", "others"])
def test_latest_version_is_the_highest_of_all_versions(partitions_def: dg.PartitionsDefinition | None) -> None:
    job = definitions(partitions_def).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance_with(KEYS),
        asset_selection=[dg.AssetKey("report")],
        partition_key=None if partitions_def is None else "1",
    )
    assert result.output_for_node("report") == ["10"]


def test_only_the_highest_version_is_mapped_downstream() -> None:
    partitions, others = version_partitions("events"), dg.StaticPartitionsDefinition(["1", "x"])
    with dg.partition_loading_context(dynamic_partitions_store=instance_with(KEYS)):
        for upstream, expected in ((["9", "10"], {"1", "x"}), (["9"], set())):
            subset = LatestVersion().get_downstream_partitions_for_partitions(
                partitions.subset_with_partition_keys(upstream), partitions, others
            )
            assert set(subset.get_partition_keys()) == expected


def test_without_versions_nothing_is_mapped() -> None:
    partitions, others = version_partitions("events"), dg.StaticPartitionsDefinition(["1", "x"])
    with dg.partition_loading_context(dynamic_partitions_store=instance_with(["abc"])):
        result = LatestVersion().get_upstream_mapped_partitions_result_for_partitions(None, None, partitions)
        downstream = LatestVersion().get_downstream_partitions_for_partitions(
            partitions.subset_with_partition_keys(["abc"]), partitions, others
        )
    assert not list(result.partitions_subset.get_partition_keys())
    assert not list(result.required_but_nonexistent_subset.get_partition_keys())
    assert not list(downstream.get_partition_keys())


def test_public_names_can_be_imported_under_both_names_of_the_package() -> None:
    tables = {"DeltaTableAsset", "DeltaTableSnapshots", "DeltaTableSnapshotsComponent"}
    names = tables | {"LatestVersion", "build_definitions", "load_settings", "versions_of_time_window"}
    assert {*vars(deltasnap_assets)["__all__"]} == names
    assert all(getattr(dagster_deltasnap, name) is getattr(deltasnap_assets, name) for name in names)
    assert dagster_deltasnap.__version__ == deltasnap_core.__version__ == version("dagster-deltasnap")
