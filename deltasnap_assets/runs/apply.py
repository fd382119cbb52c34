"""Executes what `decide` returns, and returns the answer to a tick, a schedule or a user."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import dagster as dg

from deltasnap_assets.runs.condition.check_events import report_freshness
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import (
    BrokenTableError,
    condition_after,
    condition_now,
    examination_of,
    may_examine,
)
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.decide import (
    Break,
    Examine,
    Fail,
    Follow,
    Looked,
    Record,
    Report,
    ReportFreshness,
    Request,
    Say,
    SetPartitions,
    Step,
    Wait,
    decide,
)
from deltasnap_assets.runs.memory import LOOKS, LongRead, Look, key_of_table
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.known_table import apply_to_instance, partition_requests, record_plan
from deltasnap_assets.runs.planning.log_status import stored_state
from deltasnap_assets.runs.planning.names import CHECKS_TAG, job_name, requested_run_tags
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.plan import Plan
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.stores import history_of, log_of, store_of
from deltasnap_assets.texts import without_secrets
from deltasnap_core import DeltaSnapError, TableCondition

PartitionRequest = dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer about a table: runs and partitions to request, the next state of the sensor, and a message.

    message: shown if no run is requested. is_problem: whether it says that the table is broken, waits for its poll, or
    that its last run failed. plan: the plan whose versions are requested; None: nothing was planned.
    """

    table: str
    state: SensorState = field(default_factory=SensorState)
    requests: tuple[Request, ...] = ()
    partitions: tuple[PartitionRequest, ...] = ()
    message: str = ""
    is_problem: bool = False
    plan: Plan | None = None

    @property
    def run_requests(self) -> list[dg.RunRequest]:
        """The requests for Dagster. They have no run key, because a range that failed may be requested again."""
        return [_run_request(self.table, request) for request in self.requests]


def answer_of(seen: Seen) -> tuple[Answer, Seen]:
    """Decide and apply until nothing is left to read. Return the answer, and what was seen last.

    Errors: DeltaSnapError. A fault of the log is recorded first, and is raised once for ticks. For a schedule or a user
    it is a BrokenTableError, each time.
    """
    try:
        while True:
            answer, after = _applied(seen, decide(seen, int(time.time() * 1000)))
            if after is None:
                return answer, seen
            seen = after
    except DeltaSnapError as error:
        condition = condition_after(seen.settings, seen.table, error)
        failed = None if seen.asked is Asked.TICK else seen.failed
        reported = condition if condition.faults else None
        is_new = report_condition(seen.instance, seen.settings, seen.table, reported, failed)
        if condition.mark != "error":  # no fault of the log is the reason
            raise
        if seen.asked is not Asked.TICK:
            raise BrokenTableError(table=seen.table.name, condition=condition) from error
        if is_new:
            raise
        fault = without_secrets(condition.text)
        message, state = f"{seen.table.name} is still broken: {fault}", seen.state.broken(fault)
        return Answer(table=seen.table.name, state=state, message=message, is_problem=True), seen


def _applied(seen: Seen, steps: tuple[Step, ...]) -> tuple[Answer, Seen | None]:
    """Execute steps. Return their answer, and the table to decide about again after an examination (None: not)."""
    answer = Answer(table=seen.table.name, state=SensorState(cursor=seen.state.cursor))
    running, is_put_off = None, False
    for step in steps:
        if isinstance(step, Examine):
            found = _examined(seen, step)
            if isinstance(found, TableCondition):
                return answer, seen.after_examination(found)
            running, is_put_off = found, found is None
        elif isinstance(step, Fail):
            raise step.error
        elif isinstance(step, Record | Report | ReportFreshness | Looked):
            _record(seen, step)
        else:
            answer = _with(answer, seen, step)
    if is_put_off:  # the next tick tries again
        LOOKS.pop(key_of_table(seen.settings, seen.table), None)
    if running is not None and seen.asked is Asked.TICK:
        text = f"{answer.message} The examination of its log for faults has been running {running.since_text}."
        answer = replace(answer, message=text, is_problem=answer.is_problem or running.is_overdue)
    return answer, None


def _with(answer: Answer, seen: Seen, step: Wait | Say | SetPartitions | Request | Follow | Break) -> Answer:
    """Return an answer with what a step adds to it."""
    match step:
        case Wait(text, is_problem):
            return replace(answer, state=seen.state, message=text, is_problem=is_problem)
        case Say(text, is_problem):
            return replace(answer, message=text, is_problem=is_problem)
        case SetPartitions(plan):
            return replace(answer, plan=plan, partitions=_set_partitions(seen, plan))
        case Request():
            return replace(answer, requests=(*answer.requests, step))
        case Follow(version):
            cursor = log_of(seen.table).cursor(seen.status, version).to_text()
            return replace(answer, state=SensorState(cursor=cursor))
        case Break(fault):
            return replace(answer, state=seen.state.broken(fault, answer.state.cursor))


def _record(seen: Seen, step: Record | Report | ReportFreshness | Looked) -> None:
    """Execute a step that only records something."""
    instance, settings, table = seen.instance, seen.settings, seen.table
    match step:
        case Record(found):
            record(store_of(settings), table, found)
        case Report(condition):
            report_condition(instance, settings, table, condition, seen.failed)
        case Looked():
            LOOKS[key_of_table(settings, table)] = Look(seen.facts, int(time.time() * 1000))
        case ReportFreshness():
            if (listing := seen.status.listing) is not None and seen.stored is not None:
                latest = stored_state(settings, table, seen.stored, listing.latest_version)
                report_freshness(instance, table, history_of(table, listing, latest))


def _set_partitions(seen: Seen, plan: Plan) -> tuple[PartitionRequest, ...]:
    """Set the partitions of a plan. A tick requests them with its result, unless versions must be moved for them."""
    if seen.asked is Asked.TICK and not plan.is_late:
        record_plan(seen.instance, seen.table, plan)
        return partition_requests(seen.table.name, plan)
    apply_to_instance(seen.instance, seen.table, plan)
    sort_partitions(seen.instance, seen.table.name)
    return ()


def _run_request(table_name: str, request: Request) -> dg.RunRequest:
    checks = {} if request.checks is None else {CHECKS_TAG: request.checks}
    tags = requested_run_tags(table_name, request.first, request.last) | checks
    return dg.RunRequest(job_name=job_name(table_name), tags=tags)


def _examined(seen: Seen, step: Examine) -> TableCondition | LongRead[TableCondition] | None:
    """Return the reported condition of a log; the read if it takes longer than a few seconds; None: not examined."""
    settings, table = seen.settings, seen.table
    if not step.is_brief:
        condition = condition_now(settings, table, step.what)
    elif not seen.is_examined_now and not may_examine():
        return None
    else:
        read = examination_of(settings, table, step.what)
        if not read.future.done():
            return read
        condition = read.future.result()
        if condition.latest is not None and seen.latest is not None and condition.latest < seen.latest:
            # There are later commits: it says nothing about them.
            if condition.faults:
                return examination_of(settings, table, step.what)
            found = PollFindings(is_examined=condition.is_complete, examined_checkpoint=condition.checkpoint)
            record(store_of(settings), table, found)
            return None
    report_condition(seen.instance, settings, table, condition, seen.failed)
    return condition
