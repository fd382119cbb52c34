from __future__ import annotations

import pytest

from deltasnap_assets.checks.even_partitions import EvenPartitions, EvenPartitionsLimits
from tests.assets.checks.known import page_facts, partitions


@pytest.mark.parametrize(
    ("sizes", "passed"),
    [((), True), ((5,), True), ((100, 1), True), ((10, 1, 1, 1, 1), True), ((11, 1, 1, 1, 1), False)],
)
def test_partition_many_times_larger_than_the_median_fails(sizes: tuple[int, ...], passed: bool) -> None:
    verdict = EvenPartitions().verdict(page_facts(partitions(*sizes)), EvenPartitionsLimits())
    assert (verdict.passed, verdict.is_evaluated) == (passed, True)


def test_largest_partition_is_named() -> None:
    verdict = EvenPartitions().verdict(page_facts(partitions(11, 1, 1, 1, 1)), EvenPartitionsLimits())
    assert verdict.description.startswith("The largest of 5 partitions, day=0 with 11 B, is 11.0 times the median")


def test_page_without_known_partitions_omits_the_check() -> None:
    assert not EvenPartitions().verdict(page_facts(), EvenPartitionsLimits()).is_evaluated
