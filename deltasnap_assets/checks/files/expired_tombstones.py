"""The check `expired_tombstones`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict, not_evaluated, within_limit
from deltasnap_assets.quantities import bytes_text, counted, percents

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts

_LEAST_FILES = 16  # fewer files cost little


class ExpiredTombstonesLimits(Limits):
    """The limit on files that no version needs."""

    max_expired_ratio: float = Field(default=0.5, ge=0)
    """The maximum size of the files whose retention ended since the last commit, as a ratio of the table's size. It
    does not apply to fewer than 16 files.
    """


class ExpiredTombstones(PageCheck[ExpiredTombstonesLimits]):
    """The size of the files whose retention ended since the last commit is within the limit.

    A commit drops the tombstones that expired before it, so older files are no longer in the log, whether VACUUM
    deleted them or not.
    """

    name = "expired_tombstones"
    asset = "tombstones"
    expects = "The size of the files whose retention ended since the last commit is within the limit."
    advice = (
        "Run `VACUUM`: it deletes the files that no version within the retention needs. `deltasnap vacuum PATH "
        "--dry-run` lists all of them."
    )

    def verdict(self, facts: PageFacts, limits: ExpiredTombstonesLimits) -> Verdict:
        gone = facts.counted.tombstones
        ratio = gone.expired_bytes / max(facts.counted.size_in_bytes, 1)
        passed, note = within_limit(ratio <= limits.max_expired_ratio, gone.num_expired, _LEAST_FILES, "files")
        if passed and gone.num_expired_without_size >= _LEAST_FILES:
            return not_evaluated(f"{gone.num_expired_without_size:,} expired tombstones have no size.")
        found, most = percents(ratio, limits.max_expired_ratio)
        return Verdict(
            passed=passed,
            description=(
                f"At version {facts.counted.version}, the retention of {counted(gone.num_expired, 'file')} "
                f"({bytes_text(gone.expired_bytes)}) had ended since the last commit: {found} of the size of the "
                f"table, at most {most} expected.{note}"
            ),
            numbers={"expired_files": gone.num_expired, "expired_bytes": gone.expired_bytes},
        )
