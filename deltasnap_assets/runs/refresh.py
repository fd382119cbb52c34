"""Materializes new versions in this process, for `deltasnap refresh` and the demo."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from deltasnap_assets.runs.apply import answer_of
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError, condition_now
from deltasnap_assets.runs.condition.poll_findings import LOG
from deltasnap_assets.runs.failure_reason import reason_of
from deltasnap_assets.runs.memory import ListedLog, handing_over
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.names import STORING_ASSET, asset_key, job_name, run_tags
from deltasnap_assets.runs.planning.partitions import known_versions
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError, Problem, TableCondition
from deltasnap_core.support import system_clock


class RefreshError(DeltaSnapError):
    """The run `run_id` that should materialize `versions` of `table` failed: `reason`.

    stored: the versions that it stored before, for example if a check blocked it. condition: None: not examined.
    """

    def __init__(self, *, table: str, run_id: str, reason: str, versions: range, stored: Sequence[int]) -> None:
        self.condition: TableCondition | None = None
        self.versions = versions
        self.stored = tuple(stored)
        self.table = table
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"Run {run_id} of table {table} failed: {reason}")

    @property
    def failure(self) -> Problem:
        """The failure as a problem of the table. Versions that are stored may lack other assets."""
        return failed_run_problem(self.run_id, self.reason, self.versions)


def refresh_table(
    defs: dg.Definitions | dg.RepositoryDefinition,
    settings: Settings,
    table: TableSettings,
    instance: dg.DagsterInstance,
    *,
    on_event: Callable[[range, str], None] = lambda *_: None,
    on_stored: Callable[[Sequence[int]], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
    log_level: str = "WARNING",
) -> tuple[int, ...]:
    """Materialize every version of a table that is not materialized yet, range by range. Return those versions.

    It polls as the schedule does and runs the table's job, recorded on `instance`. Loadable versions are materialized
    before an error is raised.
    on_event: called with the versions of a run and the message of each of its events.
    on_stored: called with the versions that each run stored, even if it failed afterwards.
    on_warning: called with each warning.
    log_level: of the messages of the runs that go to the console, and above.
    Errors: RefreshError for a failed run. BrokenTableError for a table that the fleet shows as broken: it cannot be
    reached, its log has an error in any version, wanted or not, its last check found an error, or the store is damaged.
    The page of the table shows the faults.
    """
    name = job_name(table.name)
    refresh = _Refresh(
        job=defs.get_job(name) if isinstance(defs, dg.RepositoryDefinition) else defs.resolve_job_def(name),
        on_event=on_event,
        on_stored=on_stored,
        on_warning=on_warning,
        log_level=log_level,
    )
    seen, problem = Seen(settings=settings, table=table, instance=instance, asked=Asked.USER), None
    while True:
        try:
            seen = refresh.run_all(seen)
            break
        except RefreshError as error:
            error.condition = condition_now(settings, table)
            if problem is not None or not error.condition.unloadable:
                report_condition(instance, settings, table, error.condition, error.failure)
                raise
            # Versions before the damage are materialized first, then it is reported.
            problem, seen = error, replace(seen, failure=error.failure)
    _raise_if_broken(seen, problem)
    return tuple(refresh.materialized)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refresh:
    """A refresh of a table, in progress. materialized: the versions so far."""

    job: dg.JobDefinition
    on_event: Callable[[range, str], None]
    on_stored: Callable[[Sequence[int]], None]
    on_warning: Callable[[str], None]
    log_level: str
    materialized: list[int] = field(default_factory=list)

    def run_all(self, seen: Seen) -> Seen:
        """Run range after range. Return the table after the last one. Errors: RefreshError."""
        while True:
            answer, seen = answer_of(seen)
            todo = answer.plan
            if todo is not None and (lost := todo.lost_text(seen.table.name)) is not None:
                self.on_warning(lost)
            if seen.stored is not None and seen.unshared is not None:
                self.on_warning(seen.unshared)
            for request in answer.requests:
                self._run(seen, range(request.first, request.last + 1))
            if todo is None or not todo.ranges:
                return seen
            seen = seen.after_runs(is_complete=todo.num_left == 0)

    def _run(self, seen: Seen, versions: range) -> None:
        """Run versions. Errors: RefreshError."""
        run_id, name, listing = str(uuid.uuid4()), seen.table.name, seen.status.listing
        common = None if seen.stored is None else seen.stored.common

        def listener(event: dg.EventLogEntry) -> None:
            self.on_event(versions, event.message)

        seen.instance.add_event_listener(run_id, listener)
        with handing_over(run_id, name, None if listing is None else ListedLog(listing, common)):
            result = self.job.execute_in_process(
                instance=seen.instance,
                run_id=run_id,
                tags=run_tags(name, versions[0], versions[-1]),
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": self.log_level}}}},
            )
        if _was_interrupted(result.all_events):
            raise KeyboardInterrupt
        stored: Sequence[int] = versions
        if not result.success:
            asset, events = asset_key(seen.table, STORING_ASSET), result.get_asset_materialization_events()
            stored = known_versions({event.partition or "" for event in events if event.asset_key == asset})
        self.on_stored(stored)
        if not result.success:
            reason = reason_of(result.all_events) or "see the run's log"
            raise RefreshError(table=name, run_id=run_id, reason=reason, versions=versions, stored=stored)
        self.materialized.extend(stored)


def _raise_if_broken(seen: Seen, problem: RefreshError | None) -> None:
    """Raise the failure of a run, or BrokenTableError if the fleet shows the table as broken."""
    if problem is not None:
        problem.condition = seen.examined
        raise problem
    store, name = store_of(seen.settings), seen.table.name
    current = store.polls.problems(name, system_clock())
    others = [each for each in current if each.mark == "error" and each.check != LOG]
    if others or (seen.examined is not None and seen.examined.mark == "error"):
        raise BrokenTableError(table=name, condition=seen.examined, problems=others)


def _was_interrupted(events: Iterable[dg.DagsterEvent]) -> bool:
    """Return whether a user stopped a run. Dagster records that as the error of a step."""
    errors = (event.step_failure_data.error for event in events if event.is_step_failure)
    return any(error is not None and error.cls_name == "DagsterExecutionInterruptedError" for error in errors)
