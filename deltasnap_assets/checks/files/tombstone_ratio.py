"""The check `tombstone_ratio`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict, within_limit
from deltasnap_assets.quantities import percents

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts

_LEAST_TOMBSTONES = 16  # with fewer tombstones the ratio is not meaningful


class TombstoneRatioLimits(Limits):
    """The limit on tombstones."""

    max_tombstone_ratio: float = Field(default=0.5, ge=0, le=1)
    """The maximum ratio of tombstones among the files and tombstones of a version. It does not apply to fewer than 16
    tombstones.
    """


class TombstoneRatio(PageCheck[TombstoneRatioLimits]):
    """The ratio of tombstones is not too high. Every reader reads them and every checkpoint contains them."""

    name = "tombstone_ratio"
    asset = "tombstones"
    expects = "The ratio of tombstones is within the limit."
    advice = (
        "Lower `delta.deletedFileRetentionDuration` if you do not need time travel that far back. The next checkpoint "
        "then drops expired tombstones."
    )

    def verdict(self, facts: PageFacts, limits: TombstoneRatioLimits) -> Verdict:
        files, tombstones = facts.state.num_of_files, facts.state.num_of_removes
        ratio = tombstones / max(files + tombstones, 1)
        found, most = percents(ratio, limits.max_tombstone_ratio)
        passed, note = within_limit(ratio <= limits.max_tombstone_ratio, tombstones, _LEAST_TOMBSTONES, "tombstones")
        counts = f"{tombstones:,} tombstones and {files:,} files ({found} of both, at most {most} expected)."
        return Verdict(
            passed=passed,
            description=counts + note,
            numbers={"tombstones": tombstones, "tombstone_ratio": ratio},
        )
