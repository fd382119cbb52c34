"""Polls a table for a sensor: which runs to request, and what to report if there are none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import dagster as dg

from deltasnap_assets.runs import due
from deltasnap_assets.runs.check_requests import request_for_checks, were_evaluated
from deltasnap_assets.runs.condition.condition_report import report_condition, shows_unloadable
from deltasnap_assets.runs.condition.examination import (
    examination_of,
    has_examination,
    may_examine,
    report_condition_without_run,
)
from deltasnap_assets.runs.condition.fault_texts import FAILED_RUN
from deltasnap_assets.runs.condition.log_reports import condition_after, condition_now
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import EarlierPoll, is_record_due, record, record_poll
from deltasnap_assets.runs.condition.reminders import REMINDERS
from deltasnap_assets.runs.condition.taken_names import check_name
from deltasnap_assets.runs.due import MAX_ATTEMPTS, Examination, Failure
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, last_observation, was_broken
from deltasnap_assets.runs.planning.log_status import DAMAGED, read_status, what_is_readable
from deltasnap_assets.runs.planning.names import REFRESH_JOB, job_name, run_tags
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.plan import Known, Stored, nothing_to_do, plan
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.shared_store import is_shared_with_runs
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.runs.table_runs import LastFailures, UnfinishedRuns, failed_run
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import without_secrets
from deltasnap_core import (
    DeltaSnapError,
    LogCursor,
    LogRelation,
    LogStatus,
    StorageError,
    TableCondition,
    TableLog,
    logger_of,
    system_clock,
)

_log = logger_of(__name__)
_REQUESTED = "requested"
"""Reminds the first tick without new commits after a run to look for its versions in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorAnswer:
    """The answer of a sensor for a table: runs to request, the next cursor, and a message if there is no request.

    is_problem: whether the message says that the table is broken, waits for its poll, or that its last run failed.
    """

    requests: tuple[dg.RunRequest, ...] = ()
    cursor: str | None
    message: str = ""
    is_problem: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolls:
    """The polls of one tick. The instance is queried once for the runs of all tables."""

    settings: Settings
    instance: dg.DagsterInstance
    unfinished: UnfinishedRuns
    failures: LastFailures

    @classmethod
    def of(cls, settings: Settings, tables: Sequence[TableSettings], instance: dg.DagsterInstance) -> TablePolls:
        """Return the polls of a tick for these tables."""
        names = [table.name for table in tables]
        unfinished = UnfinishedRuns.of(instance, names)
        failures = LastFailures.of(instance, names, unfinished.silent)
        return cls(settings=settings, instance=instance, unfinished=unfinished, failures=failures)

    def still_valid(self, answer: SensorAnswer, table: TableSettings, cursor: str | None) -> SensorAnswer:
        """Return an answer whose poll an earlier tick may have begun, without requests if a run has begun meanwhile."""
        run_id = self.unfinished.active.get(table.name)
        if run_id is None or not answer.requests:
            return answer
        return SensorAnswer(cursor=cursor, message=_in_progress(table, run_id))

    def poll(self, table: TableSettings, cursor: str | None) -> SensorAnswer:
        """Poll a table, unless a run of it is in progress, or it is broken and to be polled later.

        Errors: DeltaSnapError if the store failed, or once for a new fault of the log, after it is recorded.
        """
        state = _state(table, cursor)
        if run_id := self.unfinished.active.get(table.name):
            return SensorAnswer(cursor=state.to_text(), message=_in_progress(table, run_id))
        if state.pause_left > 0 and shows_unloadable(self.instance, table.name):  # no run or refresh found it repaired
            message = f"{table.name} is broken: {state.fault} Next poll in {state.pause_left:.0f} s."
            return SensorAnswer(cursor=state.to_text(), message=message, is_problem=True)
        polled = _PolledTable(
            settings=self.settings,
            table=table,
            instance=self.instance,
            state=state,
            failure=_open_failure(self.settings, self.instance, table, self.failures.requested.get(table.name)),
        )
        try:
            is_damaged = polled.report_failed_run(self.failures.last.get(table.name))
            if not is_damaged and state.fault is None:
                with suppress(*DAMAGED):
                    return polled.poll()
            return polled.poll_examining()
        except DeltaSnapError as error:
            condition = condition_after(self.settings, table, error)
            is_new = report_condition(self.instance, self.settings, table, condition if condition.faults else None)
            if is_new or condition.mark != "error":
                raise  # once, with the reason on the page; each time if no fault is the reason, so the store failed
            fault = without_secrets(condition.text)
            message = f"{table.name} is still broken: {fault}"
            return SensorAnswer(cursor=state.broken(fault).to_text(), message=message, is_problem=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolledTable:
    """A table that is polled now. failure: the failed run whose versions are still missing; None: there is none."""

    settings: Settings
    table: TableSettings
    instance: dg.DagsterInstance
    state: SensorState
    failure: Failure | None

    def report_failed_run(self, run_id: str | None) -> bool:
        """Record that the last run of the table failed. Return whether new faults keep versions from loading.

        run_id: of that run; None: it did not fail.
        """
        if run_id is None:
            return False
        last = last_observation(self.instance, self.table.name)
        if last is not None and FAILED_RUN in last.metadata and last.metadata[FAILED_RUN].value == run_id:
            return False
        condition = condition_now(self.settings, self.table)
        failed = failed_run(self.instance, self.table.name)
        is_new = report_condition(self.instance, self.settings, self.table, condition, failed)
        return is_new and bool(condition.unloadable)

    def poll(self) -> SensorAnswer:
        """Request the new versions, without reading their commits; without new commits, see `_poll_idle`.

        Errors: those of DAMAGED, if the log must be examined.
        """
        log, cursor = log_of(self.table), LogCursor.from_text(self.state.cursor) if self.state.cursor else None
        if cursor is not None:
            polled = log.poll(cursor)
            if polled.status is None:
                if self.failure is None or not self.failure.is_due:
                    return self._poll_idle(cursor, polled.checkpoint)
                if self.failure.is_for_checks:
                    request = request_for_checks(self.table, self.failure.last, self.failure.attempt + 1)
                    return SensorAnswer(requests=(request,), cursor=self.state.cursor)
            elif self.failure is not None and self.failure.must_wait(polled.status):  # a backlog
                return self._idle_answer
        return self._poll_new(log, cursor)

    def _poll_new(self, log: TableLog, cursor: LogCursor | None) -> SensorAnswer:
        """Request new versions, and those of a failed run again."""
        # Query the instance, then poll again: `plan` needs what was known before the log was read. Most polls find
        # nothing, and need no query.
        known = known_of(self.instance, self.table.name)
        status = None if cursor is None or self.failure is not None else log.new_commits(cursor)
        status = log.status() if status is None else status
        earlier = self._record(status, followed=None if cursor is None else cursor.version)
        if was_broken(self.instance, self.table.name):
            return self.poll_examining()
        is_new_only = cursor is not None and all(version > cursor.version for version in status.versions)
        if is_new_only and (not earlier.is_known or known.done.intersection(status.versions)):
            # The store was lost or is an older copy, or lacks versions that Dagster has: others may be missing, too.
            status = replace(log.status(), is_fork=status.is_fork)
        stored = None if status.listing is None else what_is_readable(self.settings, self.table, status.listing)
        requested = self._request(known, status, stored, self._next_attempt)
        is_recreated = stored is not None and stored.common.relation is LogRelation.RECREATED
        if stored is not None and stored.common.lost and not (is_recreated and requested.requests):
            report_condition_without_run(self.instance, self.settings, self.table, status, stored)
        return requested

    @property
    def _idle_answer(self) -> SensorAnswer:
        """The answer that requests nothing: there are no new commits, or the versions of a failed run wait."""
        message = _nothing_new(self.table, self.failure)
        return SensorAnswer(cursor=self.state.cursor, message=message, is_problem=self.failure is not None)

    @property
    def _next_attempt(self) -> int:
        """The number of the attempt that a request begins: the missing versions of a failed run are part of it."""
        return self.failure.attempt + 1 if self.failure is not None and self.failure.may_be_tried_again else 1

    def _record(self, status: LogStatus | None = None, *, followed: int | None) -> EarlierPoll:
        """Record this poll, see `record_poll`. Errors: TakenNameError, before anything is recorded."""
        settings, table = self.settings, self.table
        if is_record_due(settings, table, status, followed):
            check_name(self.instance, settings, table)
        return record_poll(settings, table, status, followed)

    def _request_checks(self, earlier: EarlierPoll) -> SensorAnswer | None:
        """Request the newest version again if the settings of its checks changed, as `refresh` does; None: no need."""
        if not earlier.has_old_checks or self.failure is not None or were_evaluated(self.instance, self.table):
            return None
        newest = max(known_of(self.instance, self.table.name).done, default=None)
        if newest is None:
            return None
        return SensorAnswer(requests=(request_for_checks(self.table, newest),), cursor=self.state.cursor)

    def _poll_idle(self, cursor: LogCursor, checkpoint: str | None) -> SensorAnswer:
        """Return the answer without new commits. checkpoint: the newest one that the poll saw."""
        earlier = self._record(followed=cursor.version)
        if not earlier.is_known:
            return self.poll_examining()
        if self._has_ended_requested_run():
            self._is_shared_with_runs(store_of(self.settings).versions(self.table.name))
        return self._request_checks(earlier) or self._examine_idle(checkpoint)

    def _is_shared_with_runs(self, stored: Collection[int]) -> bool:
        return is_shared_with_runs(self.instance, self.settings, self.table, stored)

    def _has_ended_requested_run(self) -> bool:
        """Return whether the run of the last request has ended. Then its versions are stored, unless it failed."""
        has_ended = not REMINDERS.is_due(_REQUESTED, self.settings, self.table, value=True)
        REMINDERS.restart(_REQUESTED, self.settings, self.table, value=False)
        return has_ended

    def _examine_idle(self, checkpoint: str | None) -> SensorAnswer:
        """Return the answer without new commits. If an examination of the log has ended, report its result first.

        It continues while ticks poll for new commits, because reading a long log takes longer than a tick.
        """
        settings, table, idle = self.settings, self.table, self._idle_answer
        if has_examination(settings, table):
            wanted = Examination.WHOLE_LOG  # used only if the examination in progress takes too long and is restarted
        elif not may_examine():
            return idle
        elif self._is_broken_elsewhere():
            return self.poll_examining()
        elif self._sees_new_checkpoint(checkpoint):
            wanted = Examination.NEW_CHECKPOINT
        elif not REMINDERS.restart_if_due(
            "examination", settings, table, seconds=due.EXAMINATION_CHECK_SECONDS, waits_first=True
        ):
            return idle
        elif not due.is_examination_due(store_of(settings).polls.read(table.name), system_clock()):
            return self.poll_examining()  # another process has examined it: reads only what is not stored
        else:
            wanted = Examination.WHOLE_LOG
        read = examination_of(settings, table, wanted)
        if not read.future.done():
            message = f"{idle.message} The examination of its log for faults has been running {read.since_text}."
            return replace(idle, message=message, is_problem=idle.is_problem or read.is_overdue)
        self._report_examined(read.future.result())
        return self.poll_examining()

    def _is_broken_elsewhere(self) -> bool:
        """Return whether another process found the table to be broken. Queries the instance once a minute."""
        is_due = REMINDERS.restart_if_due("broken", self.settings, self.table, seconds=due.BROKEN_CHECK_SECONDS)
        return is_due and shows_unloadable(self.instance, self.table.name)

    def _sees_new_checkpoint(self, checkpoint: str | None) -> bool:
        """Return whether the poll saw a checkpoint that was not examined. Reads the store once for each checkpoint."""
        settings, table = self.settings, self.table
        if checkpoint is None or not REMINDERS.is_due("checkpoint", settings, table, value=checkpoint):
            return False
        try:
            is_new = due.has_new_checkpoint(store_of(settings).polls.read(table.name), checkpoint)
        except StorageError:
            return False  # nothing can be recorded
        REMINDERS.restart("checkpoint", settings, table, checkpoint)
        return is_new

    def _report_examined(self, condition: TableCondition) -> None:
        """Record the result of an examination of the log, which may have received commits since it began."""
        failed = failed_run(self.instance, self.table.name)
        if self.state.cursor and condition.latest == LogCursor.from_text(self.state.cursor).version:
            report_condition(self.instance, self.settings, self.table, condition, failed)
        elif not condition.faults:  # there are later commits: it says nothing about them
            found = PollFindings(is_examined=condition.is_complete, examined_checkpoint=condition.checkpoint)
            record(store_of(self.settings), self.table, found)

    def poll_examining(self) -> SensorAnswer:
        """Request the versions that can be loaded, after reading the commits. Without a request, report the faults."""
        known = known_of(self.instance, self.table.name)
        status, stored = read_status(self.settings, self.table, examine=True)
        if self.failure is not None and self.failure.must_wait(status):
            answer = self._idle_answer
            waits = answer.message
        else:
            answer = self._request(known, status, stored, self._next_attempt)
            waits = f"All loadable versions of {self.table.name} are materialized."
        if answer.requests:
            return answer
        condition = status.condition
        if condition is not None and condition.unloadable:
            failed = failed_run(self.instance, self.table.name)
            report_condition(self.instance, self.settings, self.table, condition, failed)
        else:
            condition = report_condition_without_run(self.instance, self.settings, self.table, status, stored)
        if condition is None or not condition.unloadable:
            return answer
        fault = without_secrets(condition.text)
        return SensorAnswer(
            cursor=self.state.broken(fault, answer.cursor).to_text(), message=f"{waits} {fault}", is_problem=True
        )

    def _request(self, known: Known, status: LogStatus, stored: Stored | None, attempt: int) -> SensorAnswer:
        name = self.table.name
        is_shared = stored is None or self._is_shared_with_runs(stored.versions)
        todo = plan(self.table, status, known, stored if is_shared else None)
        if todo.ranges and stored is not None and not stored.common.is_continued:
            # The requested run may never start.
            record(store_of(self.settings), self.table, PollFindings(is_replaced=True))
        apply_to_instance(self.instance, name, todo)
        sort_partitions(self.instance, name)
        REMINDERS.restart(_REQUESTED, self.settings, self.table, bool(todo.ranges))
        # No run key, because a range that failed may be requested again.
        return SensorAnswer(
            requests=tuple(
                dg.RunRequest(job_name=job_name(name), tags=run_tags(name, *versions, attempt))
                for versions in todo.ranges
            ),
            cursor=log_of(self.table).cursor(status, todo.last).to_text(),
            message=nothing_to_do(self.table, status),
        )


def _in_progress(table: TableSettings, run_id: str) -> str:
    return f"Run {run_id} of {table.name} is in progress. The next run materializes the new commits."


def _state(table: TableSettings, cursor: str | None) -> SensorState:
    """Return the state of a table. An unreadable one is ignored: no version is requested twice without it."""
    try:
        return SensorState.from_text(cursor)
    except (TypeError, ValueError) as error:
        _log.warning("The cursor of table %s cannot be read, and is ignored: %s", table.name, error)
        return SensorState()


def _open_failure(
    settings: Settings, instance: dg.DagsterInstance, table: TableSettings, failure: Failure | None
) -> Failure | None:
    """Return the failure, unless all its versions were recorded before the run failed, or the results of its checks."""
    if failure is None or not known_of(instance, table.name).done.issuperset(range(failure.first, failure.last + 1)):
        return failure
    if failure.is_for_checks and due.has_old_checks(store_of(settings).polls.read(table.name), table):
        return failure
    return None


def _nothing_new(table: TableSettings, failure: Failure | None) -> str:
    if failure is None:
        return f"No new commits in {table.name}."
    versions = f"{failure.first} to {failure.last}"
    if failure.is_canceled:
        return (
            f"Run {failure.run_id} of {table.name}, for versions {versions}, was canceled. The next commit, the "
            f"schedule or the job `{REFRESH_JOB}` materializes the missing ones."
        )
    if failure.is_silent:
        return (
            f"Run {failure.run_id} of {table.name}, for versions {versions}, has written no event for ten minutes, and "
            f"may be dead. The next commit, the schedule or the job `{REFRESH_JOB}` retries them."
        )
    if not failure.may_be_tried_again:
        return (
            f"Run {failure.run_id} of {table.name} failed, after {MAX_ATTEMPTS} attempts at versions {versions}. "
            f"The next commit, the schedule or the job `{REFRESH_JOB}` retries them."
        )
    return (
        f"Run {failure.run_id} of {table.name} failed, attempt {failure.attempt} of {MAX_ATTEMPTS} at versions "
        f"{versions}. The next attempt is in {failure.pause_left:.0f} s."
    )
