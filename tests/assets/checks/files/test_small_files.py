from __future__ import annotations

from deltasnap_assets.checks.check import Verdict
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.compaction import Compaction, PartitionFiles
from deltasnap_assets.checks.registry import SMALL_FILES
from deltasnap_core import FileSizeHistogram
from deltasnap_core.support import OptimizeCandidate
from tests.assets.checks.files.small_files_builders import candidate
from tests.assets.checks.known import page_facts

MIB = 1024 * 1024


def verdict_of(small: int, large: int, *candidates: OptimizeCandidate, is_known: bool = False) -> Verdict:
    sizes = [MIB] * small + [100 * MIB] * large
    compaction = Compaction.exact(candidates) if candidates or is_known else None
    facts = page_facts(
        compaction=compaction, num_of_files=len(sizes), file_size_histogram=FileSizeHistogram.of_sizes(sizes)
    )
    return SMALL_FILES.judge(facts, CheckSettings())


def test_small_files_are_checked_only_above_a_number_of_files() -> None:
    assert verdict_of(10, 10).passed
    assert not verdict_of(11, 9).passed
    assert verdict_of(15, 0).passed
    assert not verdict_of(16, 0).passed


def test_passing_check_says_that_its_limit_does_not_apply() -> None:
    note = " The limit does not apply to fewer than 16 files."
    assert [verdict_of(small, 1).description.endswith(note) for small in (14, 15, 0)] == [True, False, False]


def test_small_files_are_counted() -> None:
    assert verdict_of(11, 9).numbers == {"small_files": 11, "small_file_ratio": 0.55}
    assert verdict_of(1, 0).numbers == {"small_files": 1, "small_file_ratio": 1.0}
    assert verdict_of(0, 0).numbers == {"small_files": 0, "small_file_ratio": 0.0}


def test_advice_lists_the_statements_that_compact_the_most_files() -> None:
    only_deletes = candidate("e", 1, 1)
    found = verdict_of(
        16, 0, candidate("a\x1b", 8, 1), candidate("b", 5, 2), candidate("c", 2, 1), candidate("d", 2, 1), only_deletes
    )
    assert found.advice.splitlines() == [
        "Run `OPTIMIZE`: 16 files become 4. Partitions with the most files to compact:",
        "- `` OPTIMIZE delta.`/t` WHERE `day` = 'a\\x1b' ``: 8 files become 1",
        "- `` OPTIMIZE delta.`/t` WHERE `day` = 'b' ``: 5 files become 2",
        "- `` OPTIMIZE delta.`/t` WHERE `day` = 'c' ``: 2 files become 1",
        "- and 1 more, see the metadata table `optimize_candidates`",
    ]
    assert found.numbers["files_after_optimize"] == 4
    assert SMALL_FILES.text_of(found).endswith(found.advice)


def partition(day: str, num_files: int, size_in_bytes: int) -> PartitionFiles:
    return PartitionFiles(values={"day": day}, num_files=num_files, size_in_bytes=size_in_bytes)


def estimated(*partitions: PartitionFiles) -> Verdict:
    """Return the verdict on small files if only the sums of partitions are known."""
    sizes = [MIB] * sum(each.num_files for each in partitions)
    histogram = FileSizeHistogram.of_sizes(sizes)
    compaction = Compaction.estimated(partitions, {})
    facts = page_facts(compaction=compaction, num_of_files=len(sizes), file_size_histogram=histogram)
    return SMALL_FILES.judge(facts, CheckSettings())


def test_files_of_a_large_table_are_estimated_from_the_bytes_of_its_partitions() -> None:
    one, two = partition("a", 10, 128 * MIB), partition("b", 20, 128 * MIB + 1)
    found = estimated(one, two, partition("c", 2, 300 * MIB), partition("d", 3, MIB))
    assert found.advice.splitlines() == [
        "Run `OPTIMIZE`: 35 files become about 6. Partitions with the most files to compact:",
        "- `day=b`: 20 files become about 2",
        "- `day=a`: 10 files become about 1",
        "- `day=d`: 3 files become about 1",
    ]
    assert found.numbers["files_after_optimize"] == 6
    whole = PartitionFiles(values={}, num_files=16, size_in_bytes=MIB)
    assert estimated(whole).advice.splitlines()[1] == "- the table: 16 files become about 1"


def test_estimate_needs_something_to_compact() -> None:
    several = [partition(str(number), 1, MIB) for number in range(16)]
    assert estimated(*several).advice == ""
    assert "files_after_optimize" not in estimated(*several).numbers


def test_advice_reports_if_there_is_nothing_to_compact() -> None:
    assert verdict_of(16, 0, is_known=True).advice.startswith("`OPTIMIZE` would not compact files")
    assert verdict_of(16, 0).advice == ""
    assert verdict_of(1, 15, candidate("a", 8, 1)).advice == ""


def test_file_in_a_bin_across_the_limit_is_not_small() -> None:
    sizes = [11 * MIB] * 20
    facts = page_facts(num_of_files=20, file_size_histogram=FileSizeHistogram.of_sizes(sizes))
    for limit, small in ((10_000_000, 0), (12 * MIB, 20), (12 * MIB - 1, 0)):
        found = SMALL_FILES.judge(facts, CheckSettings(small_file_bytes=limit))
        assert found.numbers["small_files"] == small
