"""Polls a table for a sensor: which runs to request, and what to report if there are none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import dagster as dg

from deltasnap_assets.runs import due
from deltasnap_assets.runs.check_requests import request_for_checks, run_for_checks
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
from deltasnap_assets.runs.due import Examination
from deltasnap_assets.runs.planning.known_table import apply_to_instance, known_of, last_observation, was_broken
from deltasnap_assets.runs.planning.log_status import DAMAGED, read_status, what_is_readable
from deltasnap_assets.runs.planning.names import REFRESH_JOB, delta_log_key, job_name, requested_run_tags
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.plan import Known, Plan, Stored, nothing_to_do, plan
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.shared_store import is_shared_with_runs
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.runs.table_runs import (
    SilentRun,
    UnfinishedRuns,
    failed_lately,
    failed_run,
    last_failed,
    versions_of_run,
)
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.texts import without_secrets
from deltasnap_core import (
    DeltaSnapError,
    LogCursor,
    LogStatus,
    TableCondition,
    TableLog,
)
from deltasnap_core.errors import StorageError
from deltasnap_core.support import LogRelation, logger_of, system_clock

_log = logger_of(__name__)
_FAILED = "failed run"
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
    """The polls of one tick. The instance is queried once for the runs of all tables. failed: see `failed_lately`."""

    settings: Settings
    instance: dg.DagsterInstance
    unfinished: UnfinishedRuns
    failed: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings, tables: Sequence[TableSettings], instance: dg.DagsterInstance) -> TablePolls:
        """Return the polls of a tick for these tables."""
        names = [table.name for table in tables]
        unfinished, failed = UnfinishedRuns.of(instance, names), failed_lately(instance, names)
        return cls(settings=settings, instance=instance, unfinished=unfinished, failed=failed)

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
            failed=self.failed.get(table.name),
            silent=SilentRun.of(self.instance, table.name, self.unfinished.silent.get(table.name, ())),
        )
        try:
            is_damaged = polled.report_failed_run()
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
    """A table that is polled now. failed: its run of `failed_lately`; None: there is none."""

    settings: Settings
    table: TableSettings
    instance: dg.DagsterInstance
    state: SensorState
    failed: str | None
    silent: SilentRun | None

    def report_failed_run(self) -> bool:
        """Record the failed run of the table. Return whether new faults keep versions from loading.

        The instance is queried only after a run failed, or the page of the table changed since then.
        """
        if self.failed is None:
            return False
        pages = self.instance.fetch_observations(delta_log_key(self.table.name), limit=1).records
        seen = (self.failed, *(page.storage_id for page in pages))
        if not REMINDERS.is_due(_FAILED, self.settings, self.table, value=seen):
            return False
        failed, is_damaged = failed_run(self.instance, self.table.name), False
        if failed is not None and failed.where.name != self._shown_failure:
            condition = condition_now(self.settings, self.table)
            is_new = report_condition(self.instance, self.settings, self.table, condition, failed)
            is_damaged = is_new and bool(condition.unloadable)
        REMINDERS.restart(_FAILED, self.settings, self.table, value=seen)
        return is_damaged

    @property
    def _shown_failure(self) -> str | None:
        """The id of the failed run that the page of the table shows; None: it shows none."""
        last = last_observation(self.instance, self.table.name)
        shown = None if last is None else last.metadata.get(FAILED_RUN)
        return None if shown is None else str(shown.value)

    def poll(self) -> SensorAnswer:
        """Request the new versions, without reading their commits; without new commits, see `_poll_idle`.

        Errors: those of DAMAGED, if the log must be examined.
        """
        log, cursor = log_of(self.table), LogCursor.from_text(self.state.cursor) if self.state.cursor else None
        if cursor is not None:
            polled = log.poll(cursor)
            if polled.status is None and (self.silent is None or self.silent.was_repeated):
                return self._poll_idle(cursor, polled.checkpoint)
        return self._poll_new(log, cursor)

    def _poll_new(self, log: TableLog, cursor: LogCursor | None) -> SensorAnswer:
        """Request new versions, and all that are missing."""
        # Query the instance, then poll again: `plan` needs what was known before the log was read. Most polls find
        # nothing, and need no query.
        known = known_of(self.instance, self.table.name)
        status = None if cursor is None else log.new_commits(cursor)
        status = log.status() if status is None else status
        earlier = self._record(status, followed=None if cursor is None else cursor.version)
        if was_broken(self.instance, self.table.name):
            return self.poll_examining()
        is_new_only = cursor is not None and all(version > cursor.version for version in status.versions)
        is_complete = known.done.issuperset(known.versions) and known.done.isdisjoint(status.versions)
        if is_new_only and not (earlier.is_known and is_complete):
            # Versions are missing, or the store was lost or is an older copy, or lacks versions that Dagster has.
            status = replace(log.status(), is_fork=status.is_fork)
        stored = None if status.listing is None else what_is_readable(self.settings, self.table, status.listing)
        requested = self._request(known, status, stored)
        is_recreated = stored is not None and stored.common.relation is LogRelation.RECREATED
        if stored is not None and stored.common.lost and not (is_recreated and requested.requests):
            report_condition_without_run(self.instance, self.settings, self.table, status, stored)
        return requested

    @property
    def _idle_answer(self) -> SensorAnswer:
        """The answer without new commits. It names a run that left versions missing."""
        if self.silent is not None:
            return self._waiting(self.silent.record.dagster_run.run_id)
        if self.failed is not None and (run_id := self._shown_failure) is not None:
            return self._waiting(run_id)
        return SensorAnswer(cursor=self.state.cursor, message=f"No new commits in {self.table.name}.")

    def _waiting(self, run_id: str) -> SensorAnswer:
        """Return the answer that requests no versions again that a run left missing."""
        is_silent = self.silent is not None and self.silent.record.dagster_run.run_id == run_id
        what = "has written no event for ten minutes, and may be dead" if is_silent else "failed or was canceled"
        message = (
            f"Run {run_id} of {self.table.name} {what}. The next commit, the schedule or the job `{REFRESH_JOB}` "
            "materializes what is missing."
        )
        return SensorAnswer(cursor=self.state.cursor, message=message, is_problem=True)

    def _run_in_vain(self, status: LogStatus, todo: Plan) -> str | None:
        """Return the id of a run that a plan would only repeat, without a reason; None: there is none.

        A plan that has versions after the cursor is no repetition. Without them, it repeats the request of a silent
        run once, and that of a run that failed or was canceled only if there is a reason in the log.
        """
        cursor = None if self.state.cursor is None else LogCursor.from_text(self.state.cursor)
        if cursor is None or status.is_fork or todo.last is None or todo.last > cursor.version:
            return None
        if self.silent is not None and not self.silent.was_repeated:
            return None
        failed, missing = last_failed(self.instance, self.table.name)
        records = [*([failed] if failed and missing else []), *([self.silent.record] if self.silent else [])]
        if not records:
            return None
        last = max(records, key=lambda record: record.update_timestamp)
        run, ended = last.dagster_run, last.update_timestamp.timestamp()
        return None if due.has_reason_to_repeat(status, ended, versions_of_run(run)) else run.run_id

    def _record(self, status: LogStatus | None = None, *, followed: int | None) -> EarlierPoll:
        """Record this poll, see `record_poll`. Errors: TakenNameError, before anything is recorded."""
        settings, table = self.settings, self.table
        if is_record_due(settings, table, status, followed):
            check_name(settings, table)
        return record_poll(settings, table, status, followed)

    def _request_checks(self, earlier: EarlierPoll) -> SensorAnswer | None:
        """Request the newest version again if the settings of its checks changed, as `refresh` does; None: no need."""
        if not earlier.has_old_checks or run_for_checks(self.instance, self.table) is not None:
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
        answer = self._request(known, status, stored)
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
        done = f"All loadable versions of {self.table.name} are materialized."
        waits = answer.message if answer.is_problem else done
        return SensorAnswer(
            cursor=self.state.broken(fault, answer.cursor).to_text(), message=f"{waits} {fault}", is_problem=True
        )

    def _request(self, known: Known, status: LogStatus, stored: Stored | None) -> SensorAnswer:
        name = self.table.name
        is_shared = stored is None or self._is_shared_with_runs(stored.versions)
        todo = plan(self.table, status, known, stored if is_shared else None)
        if (run_id := self._run_in_vain(status, todo)) is not None:
            return self._waiting(run_id)
        if todo.ranges and stored is not None and not stored.common.is_continued:
            # The requested run may never start.
            record(store_of(self.settings), self.table, PollFindings(is_replaced=True))
        apply_to_instance(self.instance, name, todo)
        sort_partitions(self.instance, name)
        REMINDERS.restart(_REQUESTED, self.settings, self.table, bool(todo.ranges))
        # No run key, because a range that failed may be requested again.
        return SensorAnswer(
            requests=tuple(
                dg.RunRequest(job_name=job_name(name), tags=requested_run_tags(name, *versions))
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
