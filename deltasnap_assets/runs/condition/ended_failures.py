"""Remembers the failed runs whose versions the log no longer has, so that nothing will retry them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import dagster as dg

from deltasnap_core import TableCondition


def is_over(condition: TableCondition, first_missing: int | None) -> bool:
    """Return whether the log was read without an error, and ends before the versions that a run did not materialize.

    first_missing: the first of them; None: unknown.
    """
    if first_missing is None or condition.latest is None or not condition.is_complete:
        return False
    return condition.mark != "error" and condition.latest < first_missing


def end_failure(instance: dg.DagsterInstance, table_name: str, run_id: str) -> None:
    """Record that the failure of a run is over."""
    instance.daemon_cursor_storage.set_cursor_values({_key(table_name): run_id})


def ended_failures(instance: dg.DagsterInstance, table_names: Collection[str]) -> Mapping[str, str]:
    """Return the last failed run of each table whose failure is over, by table."""
    keys = {_key(name): name for name in table_names}
    found = instance.daemon_cursor_storage.get_cursor_values(set(keys)) if keys else {}
    return {keys[key]: run_id for key, run_id in found.items()}


def _key(table_name: str) -> str:
    return f"deltasnap/ended_failure/{table_name}"
