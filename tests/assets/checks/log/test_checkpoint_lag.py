from __future__ import annotations

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import CHECKPOINT_LAG
from tests.assets.checks.known import KnownPageFacts, segment


def test_checkpoint_may_lag_up_to_the_limit() -> None:
    facts = KnownPageFacts(segment=segment(last=30, at=10))
    verdict = CHECKPOINT_LAG.judge(facts, CheckSettings(max_commits_since_checkpoint=20))
    assert (verdict.passed, verdict.numbers) == (True, {"commits_since_checkpoint": 20})
    assert verdict.description == "20 commits since the last checkpoint, at most 20 expected."
    assert not CHECKPOINT_LAG.judge(facts, CheckSettings(max_commits_since_checkpoint=19)).passed


def test_table_without_a_checkpoint_has_no_last_one() -> None:
    verdict = CHECKPOINT_LAG.judge(KnownPageFacts(segment=segment(last=30, at=None)), CheckSettings())
    assert verdict.description == "31 commits and no checkpoint, at most 200 expected."
