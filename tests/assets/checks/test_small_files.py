from __future__ import annotations

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.checks.small_files import SmallFiles, SmallFilesLimits
from deltasnap_core import FileSizeHistogram
from tests.assets.checks.known import page_facts

MIB = 1024 * 1024


def verdict_of(small: int, large: int) -> Verdict:
    sizes = [MIB] * small + [100 * MIB] * large
    facts = page_facts(num_of_files=len(sizes), file_size_histogram=FileSizeHistogram.of_sizes(sizes))
    return SmallFiles().verdict(facts, SmallFilesLimits())


def test_small_files_count_from_a_number_of_files_on() -> None:
    assert verdict_of(10, 10).passed
    assert not verdict_of(11, 9).passed
    assert verdict_of(15, 0).passed
    assert not verdict_of(16, 0).passed


def test_small_files_are_counted() -> None:
    assert verdict_of(11, 9).numbers == {"small_files": 11, "small_file_ratio": 0.55}
