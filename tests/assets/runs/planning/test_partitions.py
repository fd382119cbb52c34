from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.partitions import (
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
