"""Materializes new versions in this process, for `deltasnap refresh` and the demo."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import dagster as dg

from deltasnap_assets.runs.check_requests import version_with_due_checks
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.examination import report_condition_without_run
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.condition.log_reports import (
    BrokenTableError,
    condition_now,
    read_status_or_report,
)
from deltasnap_assets.runs.condition.poll_findings import LOG, known_errors
from deltasnap_assets.runs.condition.poll_records import record_unreadable
from deltasnap_assets.runs.due import is_refresh_suspect
from deltasnap_assets.runs.failure_reason import reason_of
from deltasnap_assets.runs.log_handover import ListedLog, handing_over
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of
from deltasnap_assets.runs.planning.log_status import read_status, what_is_readable
from deltasnap_assets.runs.planning.names import STORING_ASSET, job_name, run_tags
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.partitions import known_versions
from deltasnap_assets.runs.planning.plan import Known, Stored, plan
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.runs.table_runs import failed_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, LogStatus, Problem, TableCondition
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshEvent:
    """The progress of a refresh: the versions first to last of a table, and the latest event of their run."""

    table: str
    first: int
    last: int
    message: str


def refresh_table(
    defs: dg.Definitions,
    settings: Settings,
    table: TableSettings,
    instance: dg.DagsterInstance,
    *,
    on_event: Callable[[RefreshEvent], None] = lambda _: None,
    on_stored: Callable[[Sequence[int]], None] = lambda _: None,
    on_warning: Callable[[str], None] = lambda _: None,
    log_level: str = "WARNING",
) -> tuple[int, ...]:
    """Materialize every version of a table that is not materialized yet, range by range. Return those versions.

    It polls as the schedule does and runs the table's job, recorded on `instance`. Loadable versions are materialized
    before an error is raised.
    on_event: called with each event of the runs. on_warning: called with each warning.
    on_stored: called with the versions that each run stored, even if it failed afterwards.
    log_level: of the messages of the runs that go to the console, and above.
    Errors: RefreshError for a failed run. BrokenTableError for a table that the fleet shows as broken: it cannot be
    reached, its log has an error in any version, wanted or not, its last check found an error, or the store is damaged.
    The page of the table shows the faults.
    """
    refresh = _Refresh(
        job=defs.resolve_job_def(job_name(table.name)),
        settings=settings,
        table=table,
        instance=instance,
        on_event=on_event,
        on_stored=on_stored,
        on_warning=on_warning,
        log_level=log_level,
    )
    known = known_of(instance, table.name, reads_failed=True)
    status, stored = read_status_or_report(settings, table, instance)
    problem = refresh.attempt(known, status, stored)
    if problem is not None:  # versions before the damage are materialized first, then it is reported
        known = known_of(instance, table.name, reads_failed=True)
        status, stored = read_status(settings, table, examine=True)
        refresh.attempt(known, status, stored, earlier=problem)
    sort_partitions(instance, table.name)
    condition = None
    if refresh.is_new:
        record_unreadable(settings, table, stored)
    else:
        condition = report_condition_without_run(instance, settings, table, status, stored, is_requested=True)
    refresh.raise_if_broken(status, condition, problem)
    return tuple(refresh.materialized)


@dataclass(slots=True, kw_only=True)
class _Refresh:
    """A refresh of a table, in progress. is_new: whether versions were missing. materialized: the versions so far."""

    job: dg.JobDefinition
    settings: Settings
    table: TableSettings
    instance: dg.DagsterInstance
    on_event: Callable[[RefreshEvent], None]
    on_stored: Callable[[Sequence[int]], None]
    on_warning: Callable[[str], None]
    log_level: str
    is_new: bool = False
    materialized: list[int] = field(default_factory=list)

    def attempt(
        self, known: Known, status: LogStatus, stored: Stored, earlier: RefreshError | None = None
    ) -> RefreshError | None:
        """Materialize the missing versions. Return the failure of a run if versions of the log cannot be loaded.

        earlier: that of an earlier attempt. Errors: RefreshError for any other failure, or a second one, recorded.
        """
        try:
            self._run_all(known, status, stored, evaluates_checks=earlier is None)
        except RefreshError as error:
            self.on_stored(error.stored)
            error.condition = condition_now(self.settings, self.table)
            if earlier is not None or not error.condition.unloadable:
                report_condition(self.instance, self.settings, self.table, error.condition, _failed(error))
                raise
            return error
        return None

    def raise_if_broken(
        self, status: LogStatus, condition: TableCondition | None, problem: RefreshError | None
    ) -> None:
        """Raise the failure of a run, or BrokenTableError if the fleet shows the table as broken.

        condition: None: not examined. Then the log is examined here if it is suspect.
        """
        instance, settings, table, store = self.instance, self.settings, self.table, store_of(self.settings)
        errors = known_errors(store.polls.read(table.name))
        if condition is None and is_refresh_suspect(errors, status, has_failed=problem is not None):
            condition = condition_now(settings, table)
            report_condition(instance, settings, table, condition, _failed(problem) or failed_run(instance, table.name))
            errors = known_errors(store.polls.read(table.name))
        if problem is not None:
            problem.condition = condition
            raise problem
        current = store.polls.problems(table.name, system_clock())
        others = [each for each in current if each.mark == "error" and each.check != LOG]
        if others or (condition is not None and condition.mark == "error"):
            raise BrokenTableError(table=table.name, condition=condition, problems=others)

    def _run_all(self, known: Known, status: LogStatus, stored: Stored, *, evaluates_checks: bool) -> None:
        """Run range after range. evaluates_checks: whether checks that are due are evaluated if nothing is missing."""
        while True:
            todo = plan(self.table, status, known, stored)
            apply_to_instance(self.instance, self.table.name, todo)
            if (lost := todo.lost_text(self.table.name)) is not None:
                self.on_warning(lost)
            ranges, self.is_new = todo.ranges, self.is_new or bool(todo.ranges)
            if evaluates_checks and not self.is_new:
                newest = version_with_due_checks(
                    self.instance, self.settings, self.table, status, known, is_requested=True
                )
                ranges = () if newest is None else ((newest, newest),)
            seen = None if status.listing is None else ListedLog(listing=status.listing, common=stored.common)
            for first, last in ranges:
                run_id = str(uuid.uuid4())
                with handing_over(run_id, self.table.name, seen):
                    self._run(run_id, first, last)
                versions = range(first, last + 1)
                self.materialized.extend(versions)
                self.on_stored(versions)
            if todo.num_left == 0 or status.listing is None:
                return
            known = _up_to(known_of(self.instance, self.table.name, reads_failed=True), status.latest)
            stored = what_is_readable(self.settings, self.table, status.listing)

    def _run(self, run_id: str, first: int, last: int) -> None:
        def listener(event: dg.EventLogEntry) -> None:
            self.on_event(RefreshEvent(table=self.table.name, first=first, last=last, message=event.message))

        self.instance.add_event_listener(run_id, listener)
        result = self.job.execute_in_process(
            instance=self.instance,
            run_id=run_id,
            tags=run_tags(self.table.name, first, last),
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": self.log_level}}}},
        )
        if _was_interrupted(result.all_events):
            raise KeyboardInterrupt
        if not result.success:
            asset, events = dg.AssetKey([self.table.name, STORING_ASSET]), result.get_asset_materialization_events()
            raise RefreshError(
                table=self.table.name,
                run_id=result.run_id,
                reason=reason_of(result.all_events) or "see the run's log",
                versions=range(first, last + 1),
                stored=known_versions({event.partition or "" for event in events if event.asset_key == asset}),
            )


def _up_to(known: Known, latest: int) -> Known:
    """Return the facts without later versions: another process may have added them since the log was listed."""
    return replace(known, versions=tuple(version for version in known.versions if version <= latest))


def _failed(error: RefreshError | None) -> Problem | None:
    return None if error is None else error.failure


def _was_interrupted(events: Iterable[dg.DagsterEvent]) -> bool:
    """Return whether a user stopped a run. Dagster records that as the error of a step."""
    errors = (event.step_failure_data.error for event in events if event.is_step_failure)
    return any(error is not None and error.cls_name == "DagsterExecutionInterruptedError" for error in errors)
