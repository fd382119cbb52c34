"""Judges of the checks of live files and tombstones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Verdict, not_evaluated, nothing_to_compare, within_limit
from deltasnap_assets.quantities import bytes_text, counted, percents
from deltasnap_assets.texts import visible

if TYPE_CHECKING:
    from deltasnap_assets.checks.check_settings import CheckSettings
    from deltasnap_assets.checks.compaction import Compaction
    from deltasnap_assets.checks.facts import PageFacts

_LEAST_FILES = 16  # with fewer files or tombstones a ratio is not meaningful, and they cost little
_LEAST_PARTITIONS = 5  # with fewer partitions the median is not meaningful
_NOTHING_TO_MERGE = (
    "`OPTIMIZE` would not compact files: no partition has two small files that fit into a file of "
    "`delta.targetFileSize`. Choose a coarser partitioning, or configure the writer to make larger files."
)


def small_files(facts: PageFacts, settings: CheckSettings) -> Verdict:
    """The ratio of small files is not too high. A file is small if its histogram bin ends at or below the limit."""
    state = facts.state
    small = state.file_size_histogram.files_below(settings.small_file_bytes)
    ratio = small / max(state.num_of_files, 1)
    found, most = percents(ratio, settings.max_small_file_ratio)
    passed, note = within_limit(ratio <= settings.max_small_file_ratio, state.num_of_files, _LEAST_FILES, "files")
    plan = None if passed else facts.compaction
    after = state.num_of_files - (0 if plan is None else plan.lost)
    return Verdict(
        passed=passed,
        advice="" if plan is None else _advice(plan, state.num_of_files, after),
        description=(
            f"{small:,} of {state.num_of_files:,} files are smaller than {bytes_text(settings.small_file_bytes)} "
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


def statistics_coverage(facts: PageFacts, settings: CheckSettings) -> Verdict:
    """Enough files have statistics. A file without a row count counts as a file without statistics."""
    files, without = facts.state.num_of_files, facts.state.num_files_without_records
    ratio = 1 - without / max(files, 1)
    found, least = percents(ratio, settings.min_statistics_ratio)
    return Verdict(
        passed=ratio >= settings.min_statistics_ratio,
        description=(
            f"{without:,} of {files:,} files have no statistics ({found} have some, at least {least} expected)."
        ),
        numbers={"files_without_statistics": without, "statistics_ratio": ratio},
    )


def tombstone_ratio(facts: PageFacts, settings: CheckSettings) -> Verdict:
    """The ratio of tombstones is not too high. Every reader reads them and every checkpoint contains them."""
    files, tombstones = facts.state.num_of_files, facts.state.num_of_removes
    ratio = tombstones / max(files + tombstones, 1)
    found, most = percents(ratio, settings.max_tombstone_ratio)
    passed, note = within_limit(ratio <= settings.max_tombstone_ratio, tombstones, _LEAST_FILES, "tombstones")
    counts = f"{tombstones:,} tombstones and {files:,} files ({found} of both, at most {most} expected)."
    return Verdict(
        passed=passed,
        description=counts + note,
        numbers={"tombstones": tombstones, "tombstone_ratio": ratio},
    )


def even_partitions(facts: PageFacts, settings: CheckSettings) -> Verdict:
    """No partition is many times larger than the median partition."""
    files, version = facts.counted.files, facts.counted.version
    number, median = files.num_partitions, files.median_bytes
    if number is not None and number < 2:
        return nothing_to_compare("the table has fewer than two partitions.")
    if number is None or median is None:
        return not_evaluated("the table has too many partitions to count.")
    largest = files.partitions[0]
    skew = largest.size_in_bytes / max(median, 1)
    is_even, note = within_limit(skew <= settings.max_partition_skew, number, _LEAST_PARTITIONS, "partitions")
    return Verdict(
        passed=is_even,
        description=(
            f"At version {version}, the largest of {number:,} partitions, {visible(largest.label)} with "
            f"{bytes_text(largest.size_in_bytes)}, is {skew:.1f} times the median partition, at most "
            f"{settings.max_partition_skew:g} times expected.{note}"
        ),
        numbers={"partition_skew": round(skew, 2)},
    )


def expired_tombstones(facts: PageFacts, settings: CheckSettings) -> Verdict:
    """The size of the files whose retention ended since the last commit is within the limit.

    A commit drops the tombstones that expired before it, so older files are no longer in the log, whether VACUUM
    deleted them or not.
    """
    gone = facts.counted.tombstones
    ratio = gone.expired_bytes / max(facts.counted.size_in_bytes, 1)
    passed, note = within_limit(ratio <= settings.max_expired_ratio, gone.num_expired, _LEAST_FILES, "files")
    if passed and gone.num_expired_without_size >= _LEAST_FILES:
        return not_evaluated(f"{gone.num_expired_without_size:,} expired tombstones have no size.")
    found, most = percents(ratio, settings.max_expired_ratio)
    return Verdict(
        passed=passed,
        description=(
            f"At version {facts.counted.version}, the retention of {counted(gone.num_expired, 'file')} "
            f"({bytes_text(gone.expired_bytes)}) had ended since the last commit: {found} of the size of the "
            f"table, at most {most} expected.{note}"
        ),
        numbers={"expired_files": gone.num_expired, "expired_bytes": gone.expired_bytes},
    )
