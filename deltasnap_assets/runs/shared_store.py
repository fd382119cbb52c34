"""Detects that runs store their versions elsewhere: their processes do not share the folder of the store.

Without this, every plan would find that the versions of successful runs are not stored, and request them again.
"""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

from deltasnap_assets.runs.planning.known_table import known_of
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.runs.table_runs import last_ended_run, versions_of_run
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import Problem, ProblemKind, VersionRanges
from deltasnap_core.support import LastPoll, redacted


def unshared_store(
    instance: dg.DagsterInstance,
    settings: Settings,
    table: TableSettings,
    document: LastPoll | None,
    stored: Collection[int] | None,
) -> str | None:
    """Return the message that the last run succeeded but stored none of its versions here; None: there is no sign.

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
    return (
        f"Run {run.run_id} of {table.name} succeeded, but its versions {VersionRanges.of(versions).text()} are not in "
        f"the store {redacted(settings.storage)}: the process of the run has another store. They are not requested "
        f"again. {Problem.of(ProblemKind.UNSHARED_STORE).advice}"
    )
