"""The check `even_partitions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict, not_evaluated, nothing_to_compare, within_limit
from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.texts import visible

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts

_LEAST_PARTITIONS = 5  # with fewer partitions the median is not meaningful


class EvenPartitionsLimits(Limits):
    """The limit on the largest partition."""

    max_partition_skew: float = Field(default=10, ge=1)
    """The maximum size of a partition, as a multiple of the median partition. It does not apply to fewer than 5
    partitions.
    """


class EvenPartitions(PageCheck[EvenPartitionsLimits]):
    """No partition is many times larger than the median partition."""

    name = "even_partitions"
    asset = "all_files"
    expects = "No partition is many times larger than the others."
    advice = "Choose partition columns that divide the rows more evenly, or use clustering instead."

    def verdict(self, facts: PageFacts, limits: EvenPartitionsLimits) -> Verdict:
        files, version = facts.counted.files, facts.counted.version
        number, median = files.num_partitions, files.median_bytes
        if number is not None and number < 2:
            return nothing_to_compare("the table has fewer than two partitions.")
        if number is None or median is None:
            return not_evaluated("the table has too many partitions to count.")
        largest = files.partitions[0]
        skew = largest.size_in_bytes / max(median, 1)
        is_even, note = within_limit(skew <= limits.max_partition_skew, number, _LEAST_PARTITIONS, "partitions")
        return Verdict(
            passed=is_even,
            description=(
                f"At version {version}, the largest of {number:,} partitions, {visible(largest.label)} with "
                f"{bytes_text(largest.size_in_bytes)}, is {skew:.1f} times the median partition, at most "
                f"{limits.max_partition_skew:g} times expected.{note}"
            ),
            numbers={"partition_skew": round(skew, 2)},
        )
