"""Detects that runs store their versions elsewhere: their processes do not share the folder of the store.

Without this, every plan would find that the versions of successful runs are not stored, and request them again.
"""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

from deltasnap_assets.runs.condition.poll_findings import UNSHARED_STORE, PollFindings
from deltasnap_assets.runs.condition.poll_records import record as record_poll
from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.runs.table_runs import last_ended_run, versions_of_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, Problem, ProblemKind, VersionRanges
from deltasnap_core.support import LastPoll, redacted


class UnsharedStoreError(DeltaSnapError):
    """The run `run_id` stored `versions` of `table` elsewhere: they are not in the store `store`."""

    def __init__(self, *, table: str, run_id: str, versions: VersionRanges, store: str) -> None:
        self.table = table
        self.run_id = run_id
        self.versions = versions
        self.store = redacted(store)
        self.problem = Problem.of(ProblemKind.UNSHARED_STORE)
        super().__init__(
            f"Run {run_id} of {table} succeeded, but its versions {versions.text()} are not in the store {self.store}: "
            f"the process of the run has another store. They are not requested again. {self.problem.advice}"
        )


def is_shared_with_runs(
    instance: dg.DagsterInstance, settings: Settings, table: TableSettings, stored: Collection[int]
) -> bool:
    """Return whether runs store their versions in this store. If not, what it has says nothing about the runs.

    stored: the versions of the table in this store.
    Errors: UnsharedStoreError, once. The record of the table in this store keeps that it was reported.
    """
    store = store_of(settings)
    if (poll := store.polls.read(table.name)) is None:
        return True
    error = _unshared(instance, settings, table, stored, poll)
    was_reported = any(problem.check == UNSHARED_STORE for problem in poll.problems)
    if was_reported != (error is not None):
        problems = () if error is None else (error.problem,)
        record_poll(store, table, PollFindings(problems={UNSHARED_STORE: problems}))
    if error is not None and not was_reported:
        raise error
    return error is None


def _unshared(
    instance: dg.DagsterInstance, settings: Settings, table: TableSettings, stored: Collection[int], poll: LastPoll
) -> UnsharedStoreError | None:
    """Return the error if the last run succeeded but stored none of its versions here; None: there is no sign of that.

    A run that shares the store records its checks there. Since before its end, this store has waited for them. The
    record of a store that was deleted meanwhile, or replaced by an older copy, begins later.
    """
    if poll.unchecked_since_ms is None or (record := last_ended_run(instance, table.name)) is None:
        return None
    run, versions = record.dagster_run, versions_of_run(record.dagster_run)
    waited = record.end_time is not None and poll.unchecked_since_ms < record.end_time * 1000
    if not run.is_success or not versions or not waited or any(version in versions for version in stored):
        return None
    has_checks = poll.checked_version is not None and poll.checked_version >= versions[0]
    has_seen = poll.latest_version is not None and poll.latest_version >= versions[-1]
    if has_checks or not has_seen or not known_of(instance, table.name).done.issuperset(versions):
        return None
    return UnsharedStoreError(
        table=table.name, run_id=run.run_id, versions=VersionRanges.of(versions), store=settings.storage
    )
