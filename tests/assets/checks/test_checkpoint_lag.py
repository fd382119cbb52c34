from __future__ import annotations

from deltasnap_assets.checks.facts import KnownPageFacts
from deltasnap_assets.checks.log.checkpoint_lag import CheckpointLag, CheckpointLagLimits
from tests.assets.checks.known import segment
from tests.assets.tables.test_metadata import state


def test_checkpoint_may_lag_up_to_the_limit() -> None:
    facts = KnownPageFacts(state=state(), segment=segment(last=30, at=10))
    verdict = CheckpointLag().verdict(facts, CheckpointLagLimits(max_commits_since_checkpoint=20))
    assert (verdict.passed, verdict.numbers) == (True, {"commits_since_checkpoint": 20})
    assert not CheckpointLag().verdict(facts, CheckpointLagLimits(max_commits_since_checkpoint=19)).passed
