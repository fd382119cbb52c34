from __future__ import annotations

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import STATISTICS_COVERAGE
from tests.assets.checks.known import page_facts


def test_files_without_statistics_are_counted() -> None:
    assert STATISTICS_COVERAGE.judge(page_facts(), CheckSettings()).passed
    verdict = STATISTICS_COVERAGE.judge(page_facts(num_files_without_records=2), CheckSettings())
    assert not verdict.passed
    assert verdict.description.startswith("2 of 4 files have no statistics (50% have some")
    assert verdict.numbers == {"files_without_statistics": 2, "statistics_ratio": 0.5}
    half = CheckSettings(min_statistics_ratio=0.5)
    assert STATISTICS_COVERAGE.judge(page_facts(num_files_without_records=2), half).passed
    empty = STATISTICS_COVERAGE.judge(page_facts(num_of_files=0), half)
    assert (empty.passed, empty.numbers["statistics_ratio"]) == (True, 1)
    one = STATISTICS_COVERAGE.judge(page_facts(num_of_files=1, num_files_without_records=1), half)
    assert one.numbers["statistics_ratio"] == 0
