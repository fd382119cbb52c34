"""All checks, and their limits as one model. A new check gets an entry in CHECKS, its limits a base of the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from deltasnap_assets.checks.check import Check, CheckOptions, PageCheck, TableCheck, VersionCheck
from deltasnap_assets.checks.commits.fresh_table import FreshTable, FreshTableLimits
from deltasnap_assets.checks.commits.schema_unchanged import SchemaUnchanged
from deltasnap_assets.checks.commits.steady_growth import SteadyGrowth, SteadyGrowthLimits
from deltasnap_assets.checks.files.even_partitions import EvenPartitions, EvenPartitionsLimits
from deltasnap_assets.checks.files.expired_tombstones import ExpiredTombstones, ExpiredTombstonesLimits
from deltasnap_assets.checks.files.small_files import SmallFiles, SmallFilesLimits
from deltasnap_assets.checks.files.statistics_coverage import StatisticsCoverage, StatisticsCoverageLimits
from deltasnap_assets.checks.files.tombstone_ratio import TombstoneRatio, TombstoneRatioLimits
from deltasnap_assets.checks.log.checkpoint_lag import CheckpointLag, CheckpointLagLimits
from deltasnap_assets.checks.log.checksum_agrees import ChecksumAgrees
from deltasnap_assets.checks.log.condition_check import ConditionCheck
from deltasnap_assets.checks.log.contiguous_log import ContiguousLog
from deltasnap_assets.checks.log.readable_checkpoint import ReadableCheckpoint
from deltasnap_assets.checks.log.readable_protocol import ReadableProtocol

FRESH_TABLE = FreshTable()
CHECKPOINT_LAG = CheckpointLag()

CHECKS: tuple[Check, ...] = (
    ContiguousLog(),
    ReadableCheckpoint(),
    ReadableProtocol(),
    ChecksumAgrees(),
    SmallFiles(),
    StatisticsCoverage(),
    CHECKPOINT_LAG,
    TombstoneRatio(),
    EvenPartitions(),
    ExpiredTombstones(),
    FRESH_TABLE,
    SchemaUnchanged(),
    SteadyGrowth(),
)
"""In the order of evaluation, documentation and lines on the page."""

TABLE_CHECKS: tuple[TableCheck[Any], ...] = tuple(check for check in CHECKS if isinstance(check, TableCheck))
PAGE_CHECKS: tuple[PageCheck[Any], ...] = tuple(check for check in CHECKS if isinstance(check, PageCheck))
CONDITION_CHECKS: tuple[ConditionCheck, ...] = tuple(check for check in CHECKS if isinstance(check, ConditionCheck))
VERSION_CHECKS: tuple[VersionCheck[Any], ...] = tuple(check for check in CHECKS if isinstance(check, VersionCheck))
LOG_CHECKS: tuple[TableCheck[Any], ...] = (CHECKPOINT_LAG, FRESH_TABLE)
"""They read the files of the current log. The other checks that are no condition checks read a stored version."""


class CheckSettings(  # the keys of the last base come first
    SteadyGrowthLimits,
    FreshTableLimits,
    ExpiredTombstonesLimits,
    EvenPartitionsLimits,
    TombstoneRatioLimits,
    CheckpointLagLimits,
    StatisticsCoverageLimits,
    SmallFilesLimits,
):
    """The limits of the asset checks, and the options of each check by its name."""

    contiguous_log: CheckOptions = CheckOptions()
    readable_checkpoint: CheckOptions = CheckOptions()
    readable_protocol: CheckOptions = CheckOptions()
    checksum_agrees: CheckOptions = CheckOptions()
    small_files: CheckOptions = CheckOptions()
    statistics_coverage: CheckOptions = CheckOptions()
    checkpoint_lag: CheckOptions = CheckOptions()
    tombstone_ratio: CheckOptions = CheckOptions()
    even_partitions: CheckOptions = CheckOptions()
    expired_tombstones: CheckOptions = CheckOptions()
    fresh_table: CheckOptions = CheckOptions()
    schema_unchanged: CheckOptions = CheckOptions()
    steady_growth: CheckOptions = CheckOptions()


C = TypeVar("C", bound=Check)


def checks_of(settings: CheckSettings, checks: Iterable[C]) -> tuple[C, ...]:
    """Return those of the checks that a table has enabled, with its options."""
    found = ((check, getattr(settings, check.name)) for check in checks)
    return tuple(check.with_options(options) for check, options in found if options.enabled)
