from __future__ import annotations

from deltasnap_assets.checks.expired_tombstones import ExpiredTombstones, ExpiredTombstonesLimits
from tests.assets.checks.known import expired, page_facts

CHECK, LIMITS = ExpiredTombstones(), ExpiredTombstonesLimits()


def test_expired_tombstones_matter_where_they_are_many_and_large() -> None:
    assert not CHECK.verdict(page_facts(tombstones=expired(100, 10**9)), LIMITS).passed
    assert CHECK.verdict(page_facts(tombstones=expired(3, 10**9)), LIMITS).passed
    assert CHECK.verdict(page_facts(tombstones=expired(100, 10)), LIMITS).passed


def test_page_that_does_not_know_the_tombstones_leaves_it_out() -> None:
    assert not CHECK.verdict(page_facts(), LIMITS).is_evaluated
