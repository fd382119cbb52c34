from __future__ import annotations

from dataclasses import replace

import pytest

from deltasnap_assets.checks.files.expired_tombstones import ExpiredTombstones, ExpiredTombstonesLimits
from tests.assets.checks.known import expired, page_facts

CHECK, LIMITS = ExpiredTombstones(), ExpiredTombstonesLimits()


def test_only_many_large_expired_tombstones_fail() -> None:
    assert not CHECK.verdict(page_facts(tombstones=expired(100, 10**9)), LIMITS).passed
    assert CHECK.verdict(page_facts(tombstones=expired(3, 10**9)), LIMITS).passed
    assert CHECK.verdict(page_facts(tombstones=expired(100, 10)), LIMITS).passed


def test_page_without_known_tombstones_omits_the_check() -> None:
    assert not CHECK.verdict(page_facts(), LIMITS).is_evaluated


@pytest.mark.parametrize(("without_size", "is_evaluated"), [(15, True), (16, False)])
def test_expired_tombstones_without_a_size_do_not_pass(without_size: int, is_evaluated: bool) -> None:
    gone = replace(expired(100, 10), num_without_size=50, num_expired_without_size=without_size)
    assert CHECK.verdict(page_facts(tombstones=gone), LIMITS).is_evaluated == is_evaluated
    many = replace(expired(100, 10**9), num_expired_without_size=without_size)
    assert not CHECK.verdict(page_facts(tombstones=many), LIMITS).passed
