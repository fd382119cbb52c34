"""Records the results of a run's checks as the last poll of its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import dagster as dg

from deltasnap_assets.runs.condition.condition_report import MAX_TEXT_LENGTH, problems_of
from deltasnap_assets.runs.condition.last_poll import CHECKS, Found, found_by_checks, note
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_assets.texts import visible
from deltasnap_core import DeltaSnapError, TableProblem, logger_of

_log = logger_of(__name__)


def note_table_checks(snapshots: RunSnapshots, table: TableSettings, results: Sequence[dg.AssetCheckResult]) -> None:
    """Record the results of the checks of the table, and the condition of its log.

    Dagster has them already: if they cannot be recorded in the store, the failure is logged and the run continues.
    """
    found = found_by_checks(results)
    try:
        condition = snapshots.condition(table)
        newest = max(snapshots.stored_versions(table), default=None)
        noted = replace(
            found,
            latest_version=condition.latest,
            last_commit_ms=_last_commit_ms(snapshots, table, condition.latest),
            problems={**problems_of(condition, None), **found.problems, CHECKS: ()},
            facts_version=None if found.vacuum_bytes is None else newest,
            checked_version=newest,
            is_examined=condition.pages_read,
        )
        note(snapshots.store, table, noted, snapshots.in_force(table))
    except DeltaSnapError as error:
        _log.warning("Could not record the condition of table %s: %s", table.name, error)
        text = visible(str(error), MAX_TEXT_LENGTH)
        unread = TableProblem(check=CHECKS, severity="error", text=text, advice="Refresh the table to retry.")
        note(snapshots.store, table, Found(problems={**found.problems, CHECKS: (unread,)}))


def note_version_checks(snapshots: RunSnapshots, table: TableSettings, results: Sequence[dg.AssetCheckResult]) -> None:
    """Record the results of the checks of versions."""
    note(snapshots.store, table, Found(problems=found_by_checks(results).problems))


def _last_commit_ms(snapshots: RunSnapshots, table: TableSettings, latest: int | None) -> int | None:
    """Return the time of a version's commit: the stored one, else that of its file; None: unknown."""
    if latest is None:
        return None
    try:
        if latest in snapshots.stored_versions(table):
            return snapshots.manifests(table, [latest])[latest].timestamp
        commit = snapshots.listing(table).commits.get(latest)
    except DeltaSnapError:
        return None
    return None if commit is None else commit.modification_time
