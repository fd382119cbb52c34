from __future__ import annotations

from deltasnap_assets.checks.files.tombstone_ratio import TombstoneRatio, TombstoneRatioLimits
from tests.assets.checks.known import page_facts


def test_tombstones_are_compared_with_files() -> None:
    limits = TombstoneRatioLimits(max_tombstone_ratio=0.5)
    assert TombstoneRatio().verdict(page_facts(num_of_files=20, num_of_removes=20), limits).passed
    assert TombstoneRatio().verdict(page_facts(num_of_files=0, num_of_removes=15), limits).passed
    assert not TombstoneRatio().verdict(page_facts(num_of_files=0, num_of_removes=16), limits).passed
    verdict = TombstoneRatio().verdict(page_facts(num_of_files=20, num_of_removes=60), limits)
    assert not verdict.passed
    assert verdict.description == "60 tombstones and 20 files (75% of both, at most 50% expected)."
    assert verdict.numbers == {"tombstones": 60, "tombstone_ratio": 0.75}
