from __future__ import annotations

from dataclasses import replace

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import EVEN_PARTITIONS
from tests.assets.checks.known import page_facts, partitions


@pytest.mark.parametrize(
    ("sizes", "passed"),
    [
        ((100, 1), True),
        ((11, 1, 1, 1), True),
        ((10, 1, 1, 1, 1), True),
        ((11, 1, 1, 1, 1), False),
        ((0,) * 5, True),
        ((11, *(0,) * 4), False),
    ],
)
def test_partition_many_times_larger_than_the_median_fails(sizes: tuple[int, ...], passed: bool) -> None:
    verdict = EVEN_PARTITIONS.judge(page_facts(partitions(*sizes)), CheckSettings())
    assert (verdict.passed, verdict.is_evaluated) == (passed, True)


@pytest.mark.parametrize("sizes", [(), (5,)])
def test_table_without_partitions_is_not_evaluated_and_ends_an_earlier_failure(sizes: tuple[int, ...]) -> None:
    verdict = EVEN_PARTITIONS.judge(page_facts(partitions(*sizes)), CheckSettings())
    assert (verdict.is_evaluated, verdict.passed) == (False, True)


def test_largest_partition_is_named() -> None:
    verdict = EVEN_PARTITIONS.judge(page_facts(partitions(11, 1, 1, 1, 1)), CheckSettings())
    assert verdict.description.startswith(
        "At version 12, the largest of 5 partitions, day=0 with 11 B, is 11.0 times the median"
    )
    assert verdict.numbers == {"partition_skew": 11.0}
    assert EVEN_PARTITIONS.judge(page_facts(partitions(8, 3)), CheckSettings()).numbers == {"partition_skew": 1.45}


def test_partitions_that_are_too_many_to_count_are_not_evaluated() -> None:
    known = replace(partitions(100, 1, 1, 1, 1), num_partitions=None, median_bytes=None)
    verdict = EVEN_PARTITIONS.judge(page_facts(known), CheckSettings())
    assert (verdict.is_evaluated, verdict.passed) == (False, False)
