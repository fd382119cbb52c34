"""The check `small_files`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict, within_limit
from deltasnap_assets.quantities import bytes_text, percents

if TYPE_CHECKING:
    from deltasnap_assets.checks.compaction import Compaction
    from deltasnap_assets.checks.facts import PageFacts

_LEAST_FILES = 16  # with fewer files the ratio is not meaningful
_NOTHING_TO_MERGE = (
    "`OPTIMIZE` would not compact files: no partition has two small files that fit into a file of "
    "`delta.targetFileSize`. Choose a coarser partitioning, or configure the writer to make larger files."
)


class SmallFilesLimits(Limits):
    """The limits on small files."""

    small_file_bytes: int = Field(default=16 * 1024 * 1024, ge=1)
    """A file smaller than this counts as small. A size between two boundaries of Delta's histogram counts as the lower
    one. The boundaries are 8 KiB, doubling up to 4 MiB, then every 4 MiB up to 40 MiB, then wider.
    """
    max_small_file_ratio: float = Field(default=0.5, ge=0, le=1)
    """The maximum ratio of small files. It does not apply to fewer than 16 files."""


class SmallFiles(PageCheck[SmallFilesLimits]):
    """The ratio of small files is not too high. A file is small if its histogram bin ends at or below the limit."""

    name = "small_files"
    asset = "all_files"
    expects = "The ratio of small files is within the limit."
    advice = (
        "Run `OPTIMIZE`, or configure the writer to make fewer, larger files. If each partition has only one file, "
        "choose a coarser partitioning."
    )

    def verdict(self, facts: PageFacts, limits: SmallFilesLimits) -> Verdict:
        state = facts.state
        small = state.file_size_histogram.files_below(limits.small_file_bytes)
        ratio = small / max(state.num_of_files, 1)
        found, most = percents(ratio, limits.max_small_file_ratio)
        passed, note = within_limit(ratio <= limits.max_small_file_ratio, state.num_of_files, _LEAST_FILES, "files")
        plan = None if passed else facts.compaction
        after = state.num_of_files - (0 if plan is None else plan.lost)
        return Verdict(
            passed=passed,
            advice="" if plan is None else _advice(plan, state.num_of_files, after),
            description=(
                f"{small:,} of {state.num_of_files:,} files are smaller than {bytes_text(limits.small_file_bytes)} "
                f"({found}, at most {most} expected).{note}"
            ),
            numbers={"small_files": small, "small_file_ratio": ratio}
            | ({} if plan is None else {"files_after_optimize": after}),
        )


def _advice(plan: Compaction, files: int, after: int) -> str:
    """Return the effect of OPTIMIZE, with the partitions with the largest reduction of files."""
    if not plan.partitions:
        return _NOTHING_TO_MERGE
    about = "" if plan.is_exact else "about "
    lines = [f"Run `OPTIMIZE`: {files:,} files become {about}{after:,}. Partitions with the most files to compact:"]
    lines += [f"- {each.text}: {each.files:,} files become {about}{each.files_after:,}" for each in plan.partitions]
    if more := plan.num_partitions - len(plan.partitions):
        lines.append(f"- and {more:,} more, see the metadata table `optimize_candidates`")
    return "\n".join(lines)
