from __future__ import annotations

from deltasnap_assets.checks.files.statistics_coverage import StatisticsCoverage, StatisticsCoverageLimits
from tests.assets.checks.known import page_facts


def test_files_without_statistics_are_counted() -> None:
    assert StatisticsCoverage().verdict(page_facts(), StatisticsCoverageLimits()).passed
    verdict = StatisticsCoverage().verdict(page_facts(num_files_without_records=2), StatisticsCoverageLimits())
    assert not verdict.passed
    assert verdict.description.startswith("2 of 4 files have no statistics (50% have some")
    assert verdict.numbers == {"files_without_statistics": 2, "statistics_ratio": 0.5}
    half = StatisticsCoverageLimits(min_statistics_ratio=0.5)
    assert StatisticsCoverage().verdict(page_facts(num_files_without_records=2), half).passed
    empty = StatisticsCoverage().verdict(page_facts(num_of_files=0), half)
    assert (empty.passed, empty.numbers["statistics_ratio"]) == (True, 1)
    one = StatisticsCoverage().verdict(page_facts(num_of_files=1, num_files_without_records=1), half)
    assert one.numbers["statistics_ratio"] == 0
