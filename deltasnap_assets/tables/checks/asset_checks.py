"""The asset checks of a table, evaluated on the current log and on the stored versions."""

# No `from __future__ import annotations` here: Dagster inspects the annotation of `context` and rejects a string.
# ruff: noqa: I002

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import dagster as dg

from deltasnap_assets.runs.partitions import version_of
from deltasnap_assets.runs.plan import RANGE_END_TAG, RANGE_START_TAG, checkpoint_read
from deltasnap_assets.runs.verdicts import (
    CONTIGUOUS_LOG,
    READABLE_CHECKPOINT,
    READABLE_PROTOCOL,
    Verdict,
    condition_verdicts,
    not_evaluated,
)
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.spark.failures import using_spark
from deltasnap_assets.tables.assets.steps import checks_step
from deltasnap_assets.tables.checks.advice import with_advice
from deltasnap_assets.tables.checks.expectations import (
    checkpoint_lag,
    checksum_agrees,
    even_partitions,
    expired_tombstones,
    fresh_table,
    small_files,
    statistics_coverage,
    tombstone_ratio,
)
from deltasnap_assets.tables.checks.version_checks import version_checks
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import visible, without_secrets
from deltasnap_core import (
    ActionNotFoundError,
    ChecksumDifference,
    CorruptLogError,
    DeltaHistoryManager,
    DeltaSnapError,
    DeltaTableNotFoundError,
    FaultKind,
    SnapshotState,
    StorageError,
    StoredVersionNotFoundError,
    TableCondition,
    TableLog,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
    compare_with_log,
    in_commit_timestamps_enabled,
    read_checksum,
)

_MOST_OF_A_VERDICT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The input of the checks of a table.

    versions: those of the run. checkpoint_read: the checkpoint that an earlier run read completely, every page of it.
    """

    table: TableSettings
    snapshots: RunSnapshots
    versions: Sequence[int]
    checkpoint_read: str | None

    @property
    def newest(self) -> int:
        stored = self.snapshots.stored_versions(self.table)
        if not stored:
            raise StoredVersionNotFoundError(store=self.snapshots.store.root, table=self.table.name, version=None)
        return stored[-1]

    @property
    def condition(self) -> TableCondition:
        """The condition of the table: the same one that the table's page of this run shows."""
        return self.snapshots.condition(self.table, self.checkpoint_read)

    def of_condition(self, name: str) -> Verdict:
        known_sound = not self.condition.pages_read and self.checkpoint_read is not None
        return condition_verdicts(self.condition, checkpoint_known_sound=known_sound)[name]

    def newest_stored(self) -> SnapshotState:
        return self.snapshots.states_of(self.table, [self.newest])[self.newest]


_CHECKS: Mapping[str, tuple[str, str, Callable[[_Facts], Verdict]]] = {
    CONTIGUOUS_LOG: (
        "log_segment",
        "Every version of the log can be loaded: no commit is missing, and none is damaged.",
        lambda facts: facts.of_condition(CONTIGUOUS_LOG),
    ),
    READABLE_CHECKPOINT: (
        "log_segment",
        "The newest checkpoint can be read: its footer, its pages, its parts and sidecars.",
        lambda facts: facts.of_condition(READABLE_CHECKPOINT),
    ),
    "checkpoint_lag": (
        "log_segment",
        "The last checkpoint is not too many commits behind.",
        lambda facts: checkpoint_lag(facts.snapshots.latest(facts.table).segment, facts.table.checks),
    ),
    READABLE_PROTOCOL: (
        "log_segment",
        "deltasnap supports the protocol and schema of the table.",
        lambda facts: _readable_protocol(facts),
    ),
    "checksum_agrees": (
        "computed_state",
        "The version checksums (`.crc` files) match the states from the log.",
        lambda facts: checksum_agrees(_checksum_differences(facts)),
    ),
    "small_files": (
        "all_files",
        "Not too many of the files are small.",
        lambda facts: small_files(facts.newest_stored(), facts.table.checks),
    ),
    "tombstone_ratio": (
        "tombstones",
        "Tombstones are not too large a part of the state.",
        lambda facts: tombstone_ratio(facts.newest_stored(), facts.table.checks),
    ),
    "fresh_table": (
        "log_segment",
        "The last commit is not too long ago.",
        lambda facts: fresh_table(
            recent_commit_times(facts.snapshots.history(facts.table)), facts.table.checks, now_ms=_now_ms()
        ),
    ),
    "statistics_coverage": (
        "all_files",
        "Most of the files have statistics, which queries use to skip files.",
        lambda facts: statistics_coverage(facts.newest_stored(), facts.table.checks),
    ),
    "even_partitions": (
        "all_files",
        "No partition is many times larger than the others.",
        lambda facts: even_partitions(facts.snapshots.file_facts(facts.table, facts.newest), facts.table.checks),
    ),
    "expired_tombstones": (
        "tombstones",
        "The storage does not hold too many files with expired tombstones.",
        lambda facts: expired_tombstones(
            facts.snapshots.tombstone_facts(facts.table, facts.newest), facts.newest_stored(), facts.table.checks
        ),
    ),
}
# The errors of reading a broken log.
_OF_THE_LOG = (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
    StorageError,
    StoredVersionNotFoundError,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)
# The stored state contradicts the writer's checksum: the rest of the run must not use it.
_BLOCKING = frozenset({"checksum_agrees"})


def table_checks(table: TableSettings) -> list[dg.AssetChecksDefinition]:
    """Return the checks of a table, as two steps of its runs: checks of the table, and checks of single versions."""
    return [_checks_of_now(table), version_checks(table, _versions_of_run)]


def report_freshness(instance: dg.DagsterInstance, table: TableSettings) -> None:
    """Record whether the table is stale. Without new commits no run starts, so no run would record it."""
    log = TableLog.for_path(table.path, table.storage_options)
    verdict = fresh_table(
        recent_commit_times(log.history_of(log.list())),
        table.checks,
        now_ms=_now_ms(),
    )
    instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey([table.name, _CHECKS["fresh_table"][0]]),
            check_name="fresh_table",
            passed=verdict.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=with_advice("fresh_table", verdict.description, passed=verdict.passed),
            metadata=dict(verdict.numbers),
        )
    )


def recent_commit_times(history: DeltaHistoryManager, most: int = 30) -> list[int]:
    """Return the times of the last commits of a table (ms since the epoch), ascending."""
    return list(history.commit_timestamps(start=max(history.latest_version() - most + 1, 0)).values())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _checks_of_now(table: TableSettings) -> dg.AssetChecksDefinition:
    """Return the checks of the current table.

    They are not partitioned: one result per run describes the current table (`checksum_agrees`: the versions of the
    run). One result per version would double the events of a wide range.
    """

    specs = [
        dg.AssetCheckSpec(name, asset=[table.name, asset], description=description, blocking=name in _BLOCKING)
        for name, (asset, description, _) in _CHECKS.items()
    ]

    def expectations(context: dg.AssetCheckExecutionContext, _: object) -> Iterator[dg.AssetCheckResult]:
        snapshots = context.resources.snapshots
        facts = _Facts(
            table=table,
            snapshots=snapshots,
            versions=_versions_of_run(context, snapshots, table),
            checkpoint_read=checkpoint_read(context.instance, table.name),
        )
        for key in sorted(context.selected_asset_check_keys, key=lambda key: list(_CHECKS).index(key.name)):
            verdict = _verdict(key.name, facts)
            if verdict.is_evaluated:
                yield _result(key, verdict)
            else:  # Dagster shows it as skipped
                context.log.warning(f"{key.name}: {visible(without_secrets(verdict.description), _MOST_OF_A_VERDICT)}")

    return checks_step(f"{table.name}_expectations", specs, expectations)


def _verdict(name: str, facts: _Facts) -> Verdict:
    """Return the verdict of a check. A check that fails for a reason other than the table's condition reports that."""
    _, _, check = _CHECKS[name]
    try:
        told = facts.condition
        unsupported = told.faults_of(FaultKind.UNSUPPORTED_PROTOCOL)
        if unsupported and not told.is_readable and name != READABLE_PROTOCOL:
            return not_evaluated(" ".join(fault.text for fault in unsupported))
        with using_spark(facts.table.name):
            return check(facts)
    except DeltaSnapError as error:
        is_explained = not facts.condition.is_readable and isinstance(error, _OF_THE_LOG)
        if is_explained:
            return not_evaluated(facts.condition.text)
        return Verdict(passed=False, description=str(error), is_error=True)
    except Exception as error:  # noqa: BLE001  # the other checks are evaluated all the same
        told_of = f"The check could not be evaluated: {type(error).__name__}: {error}"
        return Verdict(passed=False, description=told_of, is_error=True)


def _result(key: dg.AssetCheckKey, verdict: Verdict) -> dg.AssetCheckResult:
    description = visible(without_secrets(verdict.description), _MOST_OF_A_VERDICT)
    return dg.AssetCheckResult(
        check_name=key.name,
        asset_key=key.asset_key,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.ERROR if verdict.is_error else dg.AssetCheckSeverity.WARN,
        description=with_advice(key.name, description, passed=verdict.passed, advice=verdict.advice),
        metadata=dict(verdict.numbers),
    )


def _versions_of_run(
    context: dg.AssetCheckExecutionContext, snapshots: RunSnapshots, table: TableSettings
) -> list[int]:
    """Return the stored versions of the run; the newest stored version if the run selects none."""
    tags, stored = context.run.tags, snapshots.stored_versions(table)
    if "dagster/partition" in tags:
        first = last = version_of(tags["dagster/partition"])
    elif RANGE_START_TAG in tags:
        first, last = version_of(tags[RANGE_START_TAG]), version_of(tags[RANGE_END_TAG])
    else:
        return list(stored[-1:])
    return [version for version in stored if first <= version <= last]


def _readable_protocol(facts: _Facts) -> Verdict:
    verdict = facts.of_condition(READABLE_PROTOCOL)
    stored = facts.snapshots.stored_state(facts.table, facts.condition.latest or 0)
    if not verdict.passed or stored is None or stored.protocol is None:
        return verdict
    needed = stored.protocol.min_reader_version
    return replace(
        verdict, description=f"Reader version {needed} is supported.", numbers={"min_reader_version": needed}
    )


def _checksum_differences(facts: _Facts) -> dict[int, tuple[ChecksumDifference, ...]]:
    """Return, for each version of the run with a `.crc` file, how the file differs from the stored state."""
    table, log_store = facts.table, facts.snapshots.log(facts.table).context.log.store
    manifests = facts.snapshots.manifests(table, facts.versions)
    segments = facts.snapshots.store.log_segments(table.name, manifests.values())
    checksums = {v: read_checksum(log_store, segment.checksum_file) for v, segment in segments.items()}
    told = {version: checksum for version, checksum in checksums.items() if checksum is not None}
    states = facts.snapshots.states_of(table, list(told))
    differences = {}
    for version, checksum in told.items():
        state = states[version]
        has_own_time = state.metadata is not None and in_commit_timestamps_enabled(state.metadata.configuration)
        timestamp = manifests[version].timestamp if has_own_time else None
        differences[version] = compare_with_log(checksum, state, in_commit_timestamp=timestamp, all_files=None)
    return differences
