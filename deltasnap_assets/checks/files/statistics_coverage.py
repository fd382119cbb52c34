"""The check `statistics_coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict
from deltasnap_assets.quantities import percents

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts


class StatisticsCoverageLimits(Limits):
    """The limit on files with statistics."""

    min_statistics_ratio: float = Field(default=0.9, ge=0, le=1)
    """The minimum ratio of files with statistics."""


class StatisticsCoverage(PageCheck[StatisticsCoverageLimits]):
    """Enough files have statistics. A file without a row count counts as a file without statistics."""

    name = "statistics_coverage"
    asset = "all_files"
    expects = "Most files have statistics, which queries use to skip files."
    advice = (
        "Rewrite the files with statistics (`OPTIMIZE`), or compute them (`ANALYZE TABLE ... COMPUTE DELTA "
        "STATISTICS`): queries cannot skip files without statistics."
    )

    def verdict(self, facts: PageFacts, limits: StatisticsCoverageLimits) -> Verdict:
        files, without = facts.state.num_of_files, facts.state.num_files_without_records
        ratio = 1 - without / max(files, 1)
        found, least = percents(ratio, limits.min_statistics_ratio)
        return Verdict(
            passed=ratio >= limits.min_statistics_ratio,
            description=(
                f"{without:,} of {files:,} files have no statistics ({found} have some, at least {least} expected)."
            ),
            numbers={"files_without_statistics": without, "statistics_ratio": ratio},
        )
