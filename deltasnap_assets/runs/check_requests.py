"""Requests runs that only evaluate the checks of a table again. They materialize its newest version again.

The tag of such a run shows with which settings it was requested.
"""

from __future__ import annotations

import dagster as dg

from deltasnap_assets.runs.due import are_checks_due, digest_of_settings, has_old_checks
from deltasnap_assets.runs.planning.names import CHECKS_TAG, job_name, requested_run_tags
from deltasnap_assets.runs.planning.plan import Known
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.runs.table_runs import failed_run, requested_runs
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import LogStatus


def version_with_due_checks(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    status: LogStatus,
    known: Known,
    *,
    is_requested: bool = False,
) -> int | None:
    """Return the newest materialized version if its checks are due, see `are_checks_due`; None: they are not.

    is_requested: a user waits for the answer.
    """
    newest = max(known.done.intersection(status.versions), default=None)
    if newest is None:
        return None
    failed, poll = failed_run(instance, table.name), store_of(settings).polls.read(table.name)
    checkpoint = None if status.listing is None else status.listing.newest_checkpoint
    has_failed = failed is not None and not failed.where.versions
    if not are_checks_due(
        poll, table, newest, status.latest, checkpoint, has_failed=has_failed, is_requested=is_requested
    ):
        return None
    if is_requested or not has_old_checks(poll, table):
        return newest
    run = run_for_checks(instance, table)  # if it succeeded, it had loaded other settings: another one would not help
    return None if run is not None and run.is_success else newest


def request_for_checks(table: TableSettings, version: int) -> dg.RunRequest:
    """Return the request of a run that materializes a version again, to evaluate the checks of the table."""
    tags = requested_run_tags(table.name, version, version) | {CHECKS_TAG: digest_of_settings(table)}
    return dg.RunRequest(job_name=job_name(table.name), tags=tags)


def run_for_checks(instance: dg.DagsterInstance, table: TableSettings) -> dg.DagsterRun | None:
    """Return the last run that was requested for the checks; None: there is none, or it had other settings."""
    runs = (record.dagster_run for record in requested_runs(instance, table.name))
    run = next((run for run in runs if CHECKS_TAG in run.tags), None)
    return run if run is not None and run.tags[CHECKS_TAG] == digest_of_settings(table) else None
