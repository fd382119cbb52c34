from __future__ import annotations

from deltasnap_assets.checks.expired_tombstones import ExpiredTombstones, ExpiredTombstonesLimits
from tests.assets.checks.known import expired, page_facts

CHECK, LIMITS = ExpiredTombstones(), ExpiredTombstonesLimits()


def test_only_many_large_expired_tombstones_fail() -> None:
    assert not CHECK.verdict(page_facts(tombstones=expired(100, 10**9)), LIMITS).passed
    assert CHECK.verdict(page_facts(tombstones=expired(3, 10**9)), LIMITS).passed
    assert CHECK.verdict(page_facts(tombstones=expired(100, 10)), LIMITS).passed


def test_page_without_known_tombstones_omits_the_check() -> None:
    assert not CHECK.verdict(page_facts(), LIMITS).is_evaluated
