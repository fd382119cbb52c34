"""The asset checks of a table: its expectations, evaluated on the log as it is now and on what was stored of it."""

# No `from __future__ import annotations` here: Dagster reads the annotation of `context` and takes no text for it.
# ruff: noqa: I002

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from deltasnap_assets.runs.partitions import version_of
from deltasnap_assets.runs.plan import RANGE_END_TAG, RANGE_START_TAG
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.spark.failures import using_spark
from deltasnap_assets.tables.advice import with_advice
from deltasnap_assets.tables.expectations import (
    Verdict,
    checkpoint_lag,
    checksum_agrees,
    contiguous_log,
    readable_protocol,
    small_files,
    tombstone_ratio,
)
from deltasnap_assets.tables.more_expectations import (
    even_partitions,
    expired_tombstones,
    fresh_table,
    statistics_coverage,
)
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.tables.steps import checks_step
from deltasnap_assets.tables.version_checks import version_checks
from deltasnap_assets.texts import visible, without_secrets
from deltasnap_core import (
    ChecksumDifference,
    DeltaHistoryManager,
    DeltaSnapError,
    SnapshotState,
    StoredVersionNotFoundError,
    TableLog,
    compare_with_log,
    in_commit_timestamps_enabled,
    read_checksum,
)

_MOST_OF_A_VERDICT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the checks of a table look at. versions: those of the run."""

    table: TableSettings
    snapshots: RunSnapshots
    versions: Sequence[int]

    @property
    def newest(self) -> int:
        stored = self.snapshots.stored_versions(self.table)
        if not stored:
            raise StoredVersionNotFoundError(store=self.snapshots.store.root, table=self.table.name, version=None)
        return stored[-1]

    def newest_stored(self) -> SnapshotState:
        return self.snapshots.states_of(self.table, [self.newest])[self.newest]


_CHECKS: Mapping[str, tuple[str, str, Callable[[_Facts], Verdict]]] = {
    "contiguous_log": (
        "log_segment",
        "Every version of the log can be loaded: no commit is missing.",
        lambda facts: _contiguous_log(facts.snapshots.history(facts.table)),
    ),
    "checkpoint_lag": (
        "log_segment",
        "The last checkpoint is not too many commits behind.",
        lambda facts: checkpoint_lag(facts.snapshots.latest(facts.table).segment, facts.table.checks),
    ),
    "readable_protocol": (
        "log_segment",
        "The table asks for nothing that deltasnap cannot read.",
        lambda facts: _readable_protocol(facts),
    ),
    "checksum_agrees": (
        "computed_state",
        "The version checksums (`.crc` files) say what the log amounts to.",
        lambda facts: checksum_agrees(_checksum_differences(facts)),
    ),
    "small_files": (
        "all_files",
        "Not too many of the files are small.",
        lambda facts: small_files(facts.newest_stored(), facts.table.checks),
    ),
    "tombstone_ratio": (
        "tombstones",
        "Not too much of the state is tombstones.",
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
        "Most of the files have statistics, by which queries skip files.",
        lambda facts: statistics_coverage(facts.newest_stored(), facts.table.checks),
    ),
    "even_partitions": (
        "all_files",
        "No partition is many times the size of the others.",
        lambda facts: even_partitions(facts.snapshots.file_facts(facts.table, facts.newest), facts.table.checks),
    ),
    "expired_tombstones": (
        "tombstones",
        "Not too much lies on the storage that no version within the retention needs.",
        lambda facts: expired_tombstones(
            facts.snapshots.tombstone_facts(facts.table, facts.newest), facts.newest_stored(), facts.table.checks
        ),
    ),
}
# What is stored contradicts what the writer said: nobody in the same run is to go on from it.
_BLOCKING = frozenset({"checksum_agrees"})


def table_checks(table: TableSettings) -> list[dg.AssetChecksDefinition]:
    """The checks of a table, in two steps of its runs: those of the table as it is now, and those of its versions."""
    return [_checks_of_now(table), version_checks(table, _versions_of_run)]


def report_freshness(instance: dg.DagsterInstance, table: TableSettings) -> None:
    """Record whether the table is stale: no run would tell, for nothing runs while no commits come."""
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
    """Return when the last commits of a table were made (ms since the epoch), ascending."""
    return list(history.commit_timestamps(start=max(history.latest_version() - most + 1, 0)).values())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _checks_of_now(table: TableSettings) -> dg.AssetChecksDefinition:
    """The checks of a table as it is now.

    They are not partitioned: a result a run says how the table is now (`checksum_agrees`: how the versions of the run
    are), where one for each version would double the events that a wide range costs.
    """

    specs = [
        dg.AssetCheckSpec(name, asset=[table.name, asset], description=description, blocking=name in _BLOCKING)
        for name, (asset, description, _) in _CHECKS.items()
    ]

    def expectations(context: dg.AssetCheckExecutionContext, _: object) -> Iterator[dg.AssetCheckResult]:
        snapshots = context.resources.snapshots
        facts = _Facts(table=table, snapshots=snapshots, versions=_versions_of_run(context, snapshots, table))
        with using_spark(table.name):
            for key in sorted(context.selected_asset_check_keys, key=lambda key: list(_CHECKS).index(key.name)):
                yield _evaluate(key, facts)

    return checks_step(f"{table.name}_expectations", specs, expectations)


def _evaluate(key: dg.AssetCheckKey, facts: _Facts) -> dg.AssetCheckResult:
    _, _, check = _CHECKS[key.name]
    try:
        verdict = check(facts)
    except DeltaSnapError as error:  # a log that cannot be read is what a check is there to tell
        verdict = Verdict(passed=False, description=str(error), is_error=True)
    return dg.AssetCheckResult(
        check_name=key.name,
        asset_key=key.asset_key,
        passed=verdict.passed,
        severity=dg.AssetCheckSeverity.ERROR if verdict.is_error else dg.AssetCheckSeverity.WARN,
        description=with_advice(
            key.name, visible(without_secrets(verdict.description), _MOST_OF_A_VERDICT), passed=verdict.passed
        ),
        metadata=dict(verdict.numbers),
    )


def _versions_of_run(
    context: dg.AssetCheckExecutionContext, snapshots: RunSnapshots, table: TableSettings
) -> list[int]:
    """The stored versions that the run is about; the newest where it is about none in particular."""
    tags, stored = context.run.tags, snapshots.stored_versions(table)
    if "dagster/partition" in tags:
        first = last = version_of(tags["dagster/partition"])
    elif RANGE_START_TAG in tags:
        first, last = version_of(tags[RANGE_START_TAG]), version_of(tags[RANGE_END_TAG])
    else:
        return list(stored[-1:])
    return [version for version in stored if first <= version <= last]


def _contiguous_log(history: DeltaHistoryManager) -> Verdict:
    if not (versions := history.reconstructable_versions()):
        history.earliest_recreatable_version()  # raises, and says why there is none
    return contiguous_log(versions, history.latest_version())


def _readable_protocol(facts: _Facts) -> Verdict:
    latest = facts.snapshots.latest(facts.table)
    stored = facts.snapshots.stored_state(facts.table, latest.version)
    # What is stored was read from that very log: its protocol is not looked for again.
    protocol = latest.protocol if stored is None or stored.protocol is None else stored.protocol
    return readable_protocol(protocol, path=latest.table_path, version=latest.version)


def _checksum_differences(facts: _Facts) -> dict[int, tuple[ChecksumDifference, ...]]:
    """Of each version of the run that has a `.crc` file, what it says otherwise than the stored state does."""
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
