"""The check `small_files`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, PageCheck, Verdict
from deltasnap_assets.quantities import bytes_text

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import PageFacts

_FEW_FILES = 16  # with fewer files the ratio means nothing


class SmallFilesLimits(Limits):
    """Limits of the small files."""

    small_file_bytes: int = Field(default=16 * 1024 * 1024, ge=1)
    """A file smaller than this counts as small."""
    max_small_file_ratio: float = Field(default=0.5, ge=0, le=1)
    """The maximum ratio of small files."""


class SmallFiles(PageCheck[SmallFilesLimits]):
    """The ratio of small files is not too high. A file is small if its histogram bin starts below the limit."""

    name = "small_files"
    asset = "all_files"
    expects = "Not too many of the files are small."
    advice = (
        "Run `OPTIMIZE`, or configure the writer to make fewer, larger files. If each partition has only one file, "
        "choose a coarser partitioning."
    )

    def verdict(self, facts: PageFacts, limits: SmallFilesLimits) -> Verdict:
        state = facts.state
        small = state.file_size_histogram.files_below(limits.small_file_bytes)
        ratio = small / max(state.num_of_files, 1)
        return Verdict(
            passed=ratio <= limits.max_small_file_ratio or state.num_of_files < _FEW_FILES,
            description=(
                f"{small} of {state.num_of_files} files are smaller than {bytes_text(limits.small_file_bytes)} "
                f"({ratio:.0%}, at most {limits.max_small_file_ratio:.0%} expected)."
            ),
            numbers={"small_files": small, "small_file_ratio": ratio},
        )
