"""The partitions of versions: their order, and the latest one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import dagster as dg
import pytest

import dagster_deltasnap
import deltasnap_assets
import deltasnap_core
from deltasnap_assets import LatestVersion
from deltasnap_assets.runs.planning.partition_order import sort_partitions, versions_to_move
from deltasnap_assets.runs.planning.partitions import (
    VersionPartitions,
    contiguous,
    key_of,
    keys_read_once,
    version_of,
    version_partitions,
    versions_of_keys,
)
from deltasnap_core import DeltaSnapError


def test_versions_sort_as_numbers() -> None:
    assert versions_of_keys(["10", "9", "0", "2"], "t") == (0, 2, 9, 10)
    assert key_of(12) == "12"


@pytest.mark.parametrize("key", ["", "x", "-1", "01", "1.0", "٣"])
def test_key_that_is_not_a_version_is_rejected(key: str) -> None:
    with pytest.raises(DeltaSnapError, match="of the table events is not a version") as raised:
        version_of(key, "events")
    assert f"delete_dynamic_partition('events_versions', {key!r})" in str(raised.value)


CASES = {
    "none": ((), (), []),
    "one": ((3,), (), [(3, 3)]),
    "a range": ((3, 4, 5), (), [(3, 5)]),
    "a gap": ((3, 4, 6), (), [(3, 4), (6, 6)]),
    "in order of insertion": ((3, 4, 5), (3, 4, 5), [(3, 5)]),
    "one came late": ((3, 4, 5), (3, 5, 4), [(3, 3), (4, 4), (5, 5)]),
    "some came late": ((1, 2, 3, 4), (3, 4, 1, 2), [(1, 2), (3, 4)]),
    "another key between": ((3, 4), (3, 9, 4), [(3, 3), (4, 4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_ranges_have_no_gap_and_are_ranges_of_keys(case: str) -> None:
    versions, order, expected = CASES[case]
    assert list(contiguous(versions, order)) == expected


def test_keys_of_a_range_are_read_once_while_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = version_partitions("t")
    reads: list[str] = []
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("t_versions", ["1", "3", "2", "9", "made up"])
        read = dg.DagsterInstance.get_dynamic_partitions

        def counted(self: dg.DagsterInstance, partitions_def_name: str) -> Sequence[str]:
            reads.append(partitions_def_name)
            return read(self, partitions_def_name)

        monkeypatch.setattr(dg.DagsterInstance, "get_dynamic_partitions", counted)

        def keys(start: str, end: str) -> Sequence[str]:
            with dg.partition_loading_context(dynamic_partitions_store=instance):
                return partitions.get_partition_keys_in_range(dg.PartitionKeyRange(start, end))

        with keys_read_once():
            assert [keys("1", "3") for _ in range(5)] == [["1", "2", "3"]] * 5
            assert keys("2", "9") == ["2", "3", "9"]
        assert len(reads) == 2
        instance.add_dynamic_partitions("t_versions", ["4"])
        assert keys("2", "9") == ["2", "3", "4", "9"]


ORDERS: dict[str, tuple[list[str], tuple[int, ...]]] = {
    "none": ([], ()),
    "in order": (["0", "2", "10"], ()),
    "earlier ones came later": (["10", "0", "1", "9"], (10,)),
    "one came late": (["0", "1", "3", "2"], (3,)),
    "many after it": (["5", "6", "7", "0"], (5, 6, 7)),
    "another key last": (["0", "1", "abc"], (1,)),
    "another key between": (["0", "abc", "1"], ()),
    "only other keys": (["abc"], ()),
}


@pytest.mark.parametrize("case", ORDERS)
def test_versions_to_move_are_those_after_the_first_out_of_order(case: str) -> None:
    keys, expected = ORDERS[case]
    assert versions_to_move(keys) == expected


def test_partitions_are_in_numeric_order_after_versions_came_late() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("events_versions", ["10", *map(str, range(10)), "abc"])
        assert sort_partitions(instance, "events") == 1
        assert list(instance.get_dynamic_partitions("events_versions")) == [*map(str, range(10)), "abc", "10"]
        assert sort_partitions(instance, "events") == 0


def test_many_moves_are_spread_over_calls() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("events_versions", [*map(str, range(5, 10)), *map(str, range(5))])
        assert [sort_partitions(instance, "events", most=2) for _ in range(4)] == [2, 2, 1, 0]
        assert list(instance.get_dynamic_partitions("events_versions")) == [str(version) for version in range(10)]


def test_range_of_partitions_is_a_version_range_in_any_insertion_order() -> None:
    partitions = version_partitions("events")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("events_versions", ["3", "0", "abc", "10", "2"])
        with dg.partition_loading_context(dynamic_partitions_store=instance):
            assert list(partitions.get_partition_keys_in_range(dg.PartitionKeyRange("0", "3"))) == ["0", "2", "3"]
    assert list(partitions.get_partition_keys_in_range(dg.PartitionKeyRange("7", "7"))) == ["7"]


def test_range_of_dagsters_own_definition_is_a_version_range_once_late_versions_are_moved() -> None:
    plain, found = dg.DynamicPartitionsDefinition(name="events_versions"), []
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("events_versions", ["7", "0", "1"])
        for _ in range(2):
            with dg.partition_loading_context(dynamic_partitions_store=instance):
                found.append([*plain.get_partition_keys_in_range(dg.PartitionKeyRange("0", "7"))])
            sort_partitions(instance, "events")
    assert found == [[], ["0", "1", "7"]]


def test_version_partitions_serialize_as_dynamic_partitions() -> None:
    assert version_partitions("events") == dg.DynamicPartitionsDefinition(name="events_versions")
    assert isinstance(version_partitions("events"), VersionPartitions)


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
    checks = {"expectation_check"}
    names = tables | checks | {"LatestVersion", "build_definitions", "load_settings", "versions_of_time_window"}
    assert {*vars(deltasnap_assets)["__all__"]} == names
    assert all(getattr(dagster_deltasnap, name) is getattr(deltasnap_assets, name) for name in names)
    assert dagster_deltasnap.__version__ == deltasnap_core.__version__ == version("dagster-deltasnap")
