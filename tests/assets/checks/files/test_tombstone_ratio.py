from __future__ import annotations

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import TOMBSTONE_RATIO
from tests.assets.checks.known import page_facts


def test_tombstones_are_compared_with_files() -> None:
    limits = CheckSettings(max_tombstone_ratio=0.5)
    assert TOMBSTONE_RATIO.judge(page_facts(num_of_files=20, num_of_removes=20), limits).passed
    assert TOMBSTONE_RATIO.judge(page_facts(num_of_files=0, num_of_removes=15), limits).passed
    assert not TOMBSTONE_RATIO.judge(page_facts(num_of_files=0, num_of_removes=16), limits).passed
    verdict = TOMBSTONE_RATIO.judge(page_facts(num_of_files=20, num_of_removes=60), limits)
    assert not verdict.passed
    assert verdict.description == "60 tombstones and 20 files (75% of both, at most 50% expected)."
    assert verdict.numbers == {"tombstones": 60, "tombstone_ratio": 0.75}
