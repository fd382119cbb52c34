"""Records the results of a run's checks as the last poll of its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import dagster as dg

from deltasnap_assets.checks.check import MAX_TEXT_LENGTH, AnyCheck, TableCheck, Verdict
from deltasnap_assets.checks.registry import CHECKS
from deltasnap_assets.runs.condition.poll_findings import ALL_CHECKS, LOG, RUN, VERSIONS, PollFindings, found_by_checks
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.due import inputs_of_checks
from deltasnap_assets.runs.table_runs import stores_versions
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.checks.run_facts import RunFacts
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import visible
from deltasnap_core import DeltaSnapError, Problem, ProblemKind
from deltasnap_core.support import logger_of

_log = logger_of(__name__)


def record_table_checks(
    facts: RunFacts, verdicts: Mapping[TableCheck, Verdict], run: dg.DagsterRun, *, are_all: bool, ends_failure: bool
) -> None:
    """Record the results of the checks of the table, and the condition of its log.

    Each result replaces the earlier one of its check.
    Dagster has the results already: if they cannot be recorded in the store, the failure is logged and the run
    continues.
    are_all: whether all checks were evaluated. ends_failure: see `ends_failure`.
    """
    snapshots, table = facts.snapshots, facts.table
    found = found_by_checks({check: each for check, each in verdicts.items() if each.is_evaluated and each.is_of_run})
    ended = (check.name for check, each in verdicts.items() if not each.is_evaluated and each.passed)
    off = (check.name for check in CHECKS if not getattr(table.checks, check.name).enabled)
    found = replace(found, problems={**dict.fromkeys((*off, *ended), ()), **found.problems})
    try:
        condition = snapshots.conditions.of(table)
        newest = max(snapshots.stored_versions(table), default=None)
        of_run = {**({VERSIONS: ()} if are_all and stores_versions(run) else {}), **({RUN: ()} if ends_failure else {})}
        complete = replace(
            found,
            latest_version=condition.latest,
            last_commit_ms=_last_commit_ms(snapshots, table, condition.latest),
            problems={LOG: condition.faults, **found.problems, ALL_CHECKS: (), **of_run},
            facts_version=None if found.vacuum_bytes is None else newest,
            time_travel_bytes=None if found.vacuum_bytes is None else _time_travel_bytes(snapshots, table),
            checked_version=newest if are_all else None,
            checked_inputs=inputs_of_checks(table, snapshots.listing(table).newest_checkpoint) if are_all else None,
            data_change=snapshots.data_change(table, newest) if are_all and newest is not None else None,
            is_examined=condition.is_complete,
            examined_checkpoint=condition.checkpoint,
        )
        record(snapshots.store, table, complete, snapshots.versions.names(table.name))
    except DeltaSnapError as error:
        _log.warning("Could not record the condition of table %s: %s", table.name, error)
        unread = Problem.of(ProblemKind.UNREAD_FACTS, error=visible(str(error), MAX_TEXT_LENGTH))
        record(snapshots.store, table, PollFindings(problems={**found.problems, ALL_CHECKS: (unread,)}))


def record_version_checks(
    snapshots: RunSnapshots,
    table: TableSettings,
    verdicts: Mapping[AnyCheck, Verdict],
    versions: Sequence[int],
    names: Iterable[str],
) -> None:
    """Record the results of the checks of versions, unless a newer version is stored: they describe the newest one.

    names: of the selected checks. A check without a result ends its problem, which belongs to an earlier version.
    """
    if max(snapshots.stored_versions(table), default=None) in versions:
        problems = {**dict.fromkeys(names, ()), **found_by_checks(verdicts).problems}
        record(snapshots.store, table, PollFindings(problems=problems))


def _time_travel_bytes(snapshots: RunSnapshots, table: TableSettings) -> int | None:
    """Return the bytes that the check of expired tombstones counted too."""
    return snapshots.facts.of(table).tombstones.time_travel_bytes


def _last_commit_ms(snapshots: RunSnapshots, table: TableSettings, latest: int | None) -> int | None:
    """Return the time of a version's commit: the stored one, else that of its file; None: unknown."""
    if latest is None:
        return None
    try:
        if latest in snapshots.stored_versions(table):
            return snapshots.versions.manifests(table.name, [latest])[latest].timestamp
        commit = snapshots.listing(table).commits.get(latest)
    except DeltaSnapError:
        return None
    return None if commit is None else commit.modification_time
