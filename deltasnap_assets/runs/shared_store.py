"""Detects that runs store their versions elsewhere: their processes do not share the folder of the store.

Without this, every plan would find that the versions of successful runs are not stored, and request them again.
"""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

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


def unshared_store(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    document: LastPoll | None,
    stored: Collection[int] | None,
) -> UnsharedStoreError | None:
    """Return the error if the last run succeeded but stored none of its versions here; None: there is no sign of that.

    A run that shares the store records its checks there. Since before its end, this store has waited for them. The
    document of a store that was deleted meanwhile, or replaced by an older copy, begins later.
    stored: the versions in this store; None: not listed yet.
    """
    if document is None or document.unchecked_since_ms is None:
        return None
    record = last_ended_run(instance, table.name)
    if record is None or record.end_time is None or not record.dagster_run.is_success:
        return None
    run, versions = record.dagster_run, versions_of_run(record.dagster_run)
    if not versions or document.unchecked_since_ms >= record.end_time * 1000:
        return None
    has_checks = document.checked_version is not None and document.checked_version >= versions[0]
    has_seen = document.latest_version is not None and document.latest_version >= versions[-1]
    if has_checks or not has_seen:
        return None
    here = store_of(settings).versions(table.name) if stored is None else stored
    if any(version in versions for version in here) or not known_of(instance, table).done.issuperset(versions):
        return None
    return UnsharedStoreError(
        table=table.name, run_id=run.run_id, versions=VersionRanges.of(versions), store=settings.storage
    )
