from __future__ import annotations

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.partition_order import sort_partitions, versions_to_move
from deltasnap_assets.runs.planning.partitions import VersionPartitions, version_partitions

CASES: dict[str, tuple[list[str], tuple[int, ...]]] = {
    "none": ([], ()),
    "in order": (["0", "2", "10"], ()),
    "earlier ones came later": (["10", "0", "1", "9"], (10,)),
    "one came late": (["0", "1", "3", "2"], (3,)),
    "many after it": (["5", "6", "7", "0"], (5, 6, 7)),
    "another key last": (["0", "1", "abc"], (1,)),
    "another key between": (["0", "abc", "1"], ()),
    "only other keys": (["abc"], ()),
}


@pytest.mark.parametrize("case", CASES)
def test_versions_to_move_are_those_after_the_first_out_of_order(case: str) -> None:
    keys, expected = CASES[case]
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
