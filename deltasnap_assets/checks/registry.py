"""All checks as values. A new one gets an entry here, and its keys in `check_settings.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from deltasnap_assets.checks import columns, commits, files, log
from deltasnap_assets.checks.check import AnyCheck, Check, PageCheck, TableCheck, VersionCheck
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_core import ProblemKind
from deltasnap_core.support import TEMPLATES

CONTIGUOUS_LOG: TableCheck = Check(
    name="contiguous_log",
    asset="delta_log",
    expects=(
        "Every version of the log can be loaded: no commit is missing, damaged, empty, "
        "ambiguous or unpublished, and none has impossible times, sizes or numbers of rows."
    ),
    advice=(
        "Restore the missing or damaged commits from a backup of the log. If there is none, run "
        "`deltasnap repair TABLE`."
    ),
    judge=lambda facts, _: log.contiguous_log(facts.condition),
    of_condition=log.contiguous_log,
    severity="error",
)
READABLE_CHECKPOINT: TableCheck = Check(
    name="readable_checkpoint",
    asset="delta_log",
    expects=(
        "The newest checkpoint can be read: its footer, its pages, its parts and sidecars. It has as many files as the "
        "stored version, and the hint _last_checkpoint is right."
    ),
    advice="Move the damaged or wrong checkpoint out of _delta_log, and write a new one.",
    judge=lambda facts, _: log.readable_checkpoint(
        facts.condition, checkpoint_known_sound=facts.checkpoint_known_sound
    ),
    of_condition=log.readable_checkpoint,
    severity="error",
)
READABLE_PROTOCOL: TableCheck = Check(
    name="readable_protocol",
    asset="delta_log",
    expects="deltasnap supports the protocol and schema of the table.",
    advice=(
        "Upgrade to a release of deltasnap that supports the feature, or drop the feature (`ALTER TABLE ... DROP "
        "FEATURE`) for readers that do not support it."
    ),
    judge=log.readable_protocol_of_run,
    of_condition=log.readable_protocol,
    severity="error",
)
CHECKSUM_AGREES: TableCheck = Check(
    name="checksum_agrees",
    asset="computed_state",
    expects="The version checksums (`.crc` files) match the states from the log.",
    advice=(
        "Trust the log, not the checksum. Find the writer of that version (reconstructed_state shows its engine) and "
        "upgrade it."
    ),
    judge=log.checksum_agrees,
    severity="error",
    is_blocking=True,
)
SMALL_FILES: PageCheck = Check(
    name="small_files",
    asset="all_files",
    expects="The ratio of small files is within the limit.",
    advice=(
        "Run `OPTIMIZE`, or configure the writer to make fewer, larger files. If each partition has only one file, "
        "choose a coarser partitioning."
    ),
    judge=files.small_files,
)
STATISTICS_COVERAGE: PageCheck = Check(
    name="statistics_coverage",
    asset="all_files",
    expects="Most files have statistics, which queries use to skip files.",
    advice=(
        "Rewrite the files with statistics (`OPTIMIZE`), or compute them (`ANALYZE TABLE ... COMPUTE DELTA "
        "STATISTICS`): queries cannot skip files without statistics."
    ),
    judge=files.statistics_coverage,
)
CHECKPOINT_LAG: PageCheck = Check(
    name="checkpoint_lag",
    asset="log_segment",
    expects="The number of commits since the last checkpoint is within the limit.",
    advice=(
        "Run `deltasnap checkpoint PATH`, or set `checkpoint: {after_commits: 100}` for the table. Writers write one "
        "every `delta.checkpointInterval` commits."
    ),
    judge=log.checkpoint_lag,
)
TOMBSTONE_RATIO: PageCheck = Check(
    name="tombstone_ratio",
    asset="tombstones",
    expects="The ratio of tombstones is within the limit.",
    advice=(
        "Lower `delta.deletedFileRetentionDuration` if you do not need time travel that far back. The next checkpoint "
        "then drops expired tombstones."
    ),
    judge=files.tombstone_ratio,
)
EVEN_PARTITIONS: PageCheck = Check(
    name="even_partitions",
    asset="all_files",
    expects="No partition is many times larger than the others.",
    advice="Choose partition columns that divide the rows more evenly, or use clustering instead.",
    judge=files.even_partitions,
)
EXPIRED_TOMBSTONES: PageCheck = Check(
    name="expired_tombstones",
    asset="tombstones",
    expects="The size of the files whose retention ended since the last commit is within the limit.",
    advice=(
        "Run `VACUUM`: it deletes the files that no version within the retention needs. `deltasnap vacuum PATH "
        "--dry-run` lists all of them."
    ),
    judge=files.expired_tombstones,
)
FRESH_TABLE: TableCheck = Check(
    name="fresh_table",
    asset="delta_log",
    expects="The last commit is recent.",
    advice=TEMPLATES[ProblemKind.STALE].advice,
    judge=commits.fresh_table,
)
CLEANUP_ORPHANS: TableCheck = Check(
    name="cleanup_orphans",
    asset="delta_log",
    expects=(
        "A cleanup of the log would leave every version within `delta.logRetentionDuration` readable. Spark before "
        "Delta Lake 4.0.1 also deletes the checkpoint that the oldest of them need."
    ),
    advice="Write a checkpoint of the first of these versions with `deltasnap checkpoint PATH`, or upgrade the writer.",
    judge=log.cleanup_orphans,
)
SCHEMA_UNCHANGED: VersionCheck = Check(
    name="schema_unchanged",
    asset="computed_state",
    expects="A version has the same schema as the version before.",
    advice="Check that readers of the table support the new schema.",
    judge=commits.schema_unchanged,
)
STEADY_GROWTH: VersionCheck = Check(
    name="steady_growth",
    asset="computed_state",
    expects="A version does not change the table's size far more than recent versions did.",
    advice="Check the writer of this version: an import may have run twice, or a delete may have removed too much.",
    judge=commits.steady_growth,
)
ROWS_EXPECTED: TableCheck = Check(
    name="rows_expected",
    asset="delta_log",
    expects="Commits added about as many rows in the last 24 hours as usual. Off by default.",
    advice="Check the jobs that write the table: one may not have run, or twice, or its source may be incomplete.",
    judge=commits.rows_expected,
)
NULL_SHARE: TableCheck = Check(
    name="null_share",
    asset="computed_state",
    expects="The share of nulls in each column is within its limit. Off by default.",
    advice="Find the commit that added the nulls: `deltasnap bisect PATH --where 'COLUMN is null'`, and check its job.",
    judge=columns.null_share,
)
MAX_NOT_IN_FUTURE: TableCheck = Check(
    name="max_not_in_future",
    asset="computed_state",
    expects="No column of dates or times has a value in the future. Off by default.",
    advice="Check the writer's parsing of dates and its clock. Name columns with planned dates in `dated_columns`.",
    judge=columns.max_not_in_future,
)
COLUMNS_WITHIN: TableCheck = Check(
    name="columns_within",
    asset="computed_state",
    expects="The values of columns are within the ranges in `column_ranges`. Off by default.",
    advice="Check the job that wrote the rows: `deltasnap scan PATH --where CONDITION` shows them.",
    judge=columns.columns_within,
)

CONDITION_CHECKS: tuple[TableCheck, ...] = (CONTIGUOUS_LOG, READABLE_CHECKPOINT, READABLE_PROTOCOL)
PAGE_CHECKS: tuple[PageCheck, ...] = (
    SMALL_FILES,
    STATISTICS_COVERAGE,
    CHECKPOINT_LAG,
    TOMBSTONE_RATIO,
    EVEN_PARTITIONS,
    EXPIRED_TOMBSTONES,
)
COLUMN_CHECKS: tuple[TableCheck, ...] = (NULL_SHARE, MAX_NOT_IN_FUTURE, COLUMNS_WITHIN)
TABLE_CHECKS: tuple[TableCheck, ...] = (
    *CONDITION_CHECKS,
    CHECKSUM_AGREES,
    *PAGE_CHECKS,
    FRESH_TABLE,
    CLEANUP_ORPHANS,
    ROWS_EXPECTED,
    *COLUMN_CHECKS,
)
VERSION_CHECKS: tuple[VersionCheck, ...] = (SCHEMA_UNCHANGED, STEADY_GROWTH)
CHECKS: tuple[AnyCheck, ...] = (*TABLE_CHECKS, *VERSION_CHECKS)
"""In the order of evaluation, documentation and lines on the page."""
LOG_CHECKS: tuple[TableCheck, ...] = (CHECKPOINT_LAG, FRESH_TABLE, CLEANUP_ORPHANS)
"""They read the files of the current log. The other checks that are no condition checks read a stored version."""

C = TypeVar("C", bound=AnyCheck)


def checks_of(settings: CheckSettings, checks: Iterable[C]) -> tuple[C, ...]:
    """Return those of the checks that a table has enabled, with its options."""
    found = ((check, getattr(settings, check.name)) for check in checks)
    return tuple(replace(check, options=options) for check, options in found if options.enabled)
