"""Executes what `decide` returns, and returns the answer to a tick, a schedule or a user."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import dagster as dg

from deltasnap_assets.runs.condition.check_events import report_freshness
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError, condition_after, condition_now
from deltasnap_assets.runs.condition.poll_findings import PollFindings, found_by_checks
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.decide import Do, Follow, Looked, Request, Say, Step, decide
from deltasnap_assets.runs.memory import LOOKS, Look, key_of_table
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.known_table import apply_to_instance, partition_requests, record_plan
from deltasnap_assets.runs.planning.log_status import stored_state
from deltasnap_assets.runs.planning.names import job_name, requested_run_tags
from deltasnap_assets.runs.planning.partition_order import sort_partitions
from deltasnap_assets.runs.planning.plan import Plan, at_data_version
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.located import needs_session, recall
from deltasnap_assets.settings.store_place import check_located
from deltasnap_assets.texts import without_secrets
from deltasnap_core import DeltaSnapError, LogCursor, TableCondition

PartitionRequest = dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer about a table: runs and partitions to request, and a message.

    cursor: the last commit that is followed. message: shown if no run is requested. is_problem: whether it says that
    the table is broken, waits for its poll, or that its last run failed. plan: the plan whose versions are requested;
    None: nothing was planned.
    """

    table: str
    cursor: LogCursor | None = None
    requests: tuple[Request, ...] = ()
    partitions: tuple[PartitionRequest, ...] = ()
    message: str = ""
    is_problem: bool = False
    plan: Plan | None = None

    @property
    def run_requests(self) -> list[dg.RunRequest]:
        """The requests for Dagster. They have no run key, because a range that failed may be requested again."""
        job = job_name(self.table)
        return [
            dg.RunRequest(job_name=job, tags=requested_run_tags(self.table, *versions)) for versions in self.requests
        ]


def answer_of(seen: Seen) -> tuple[Answer, Seen]:
    """Decide and apply until nothing is left to read. Return the answer, and what was seen last.

    Errors: DeltaSnapError. A fault of the log is recorded first, and is raised once for ticks. For a schedule or a user
    it is a BrokenTableError, each time.
    """
    try:
        if needs_session(seen.table):
            recall(seen.table, store_of(seen.settings).polls.read(seen.table.name))
        check_located(seen.settings, seen.table)
        while True:
            steps = decide(seen, int(time.time() * 1000))
            answer = Answer(table=seen.table.name, cursor=seen.cursor)
            for step in steps:
                if step is Do.EXAMINE:
                    condition = condition_now(seen.settings, seen.table)
                    report_condition(seen.instance, seen.settings, seen.table, condition, seen.failed)
                    seen = seen.after_examination(condition)
                    break
                answer = _applied(answer, seen, step)
            else:
                return answer, seen
    except DeltaSnapError as error:
        condition = condition_after(seen.settings, seen.table, error)
        failed = None if seen.asked is Asked.TICK else seen.failed
        reported = condition if condition.faults else None
        is_new = report_condition(seen.instance, seen.settings, seen.table, reported, failed)
        if condition.mark != "error":  # no fault of the log is the reason
            raise
        if seen.asked is not Asked.TICK:
            raise BrokenTableError(table=seen.table.name, condition=condition) from error
        fault = without_secrets(condition.text)
        _look(seen, fault)
        if is_new:
            raise
        message = f"{seen.table.name} is still broken: {fault}"
        return Answer(table=seen.table.name, cursor=seen.cursor, message=message, is_problem=True), seen


def _look(seen: Seen, fault: str | None) -> None:
    now_ms = int(time.time() * 1000)
    LOOKS[key_of_table(seen.settings, seen.table)] = Look(at_ms=now_ms, failed=seen.failed_lately, fault=fault)


def _applied(answer: Answer, seen: Seen, step: Step) -> Answer:
    """Execute a step. Return the answer with what it adds."""
    instance, settings, table = seen.instance, seen.settings, seen.table
    match step:
        case Say(text, is_problem):
            return replace(answer, message=text, is_problem=is_problem)
        case Plan():
            return replace(answer, plan=step, partitions=_set_partitions(seen, step))
        case Request():
            LOOKS.pop(key_of_table(settings, table), None)
            return replace(answer, requests=(*answer.requests, step))
        case Follow(version):
            return replace(answer, cursor=log_of(table).cursor(seen.status, version))
        case PollFindings():
            record(store_of(settings), table, step)
        case TableCondition():
            report_condition(instance, settings, table, step, seen.failed)
        case Looked(fault):
            _look(seen, fault)
        case Do.REPORT_FRESHNESS:
            if (listing := seen.status.listing) is not None and seen.stored is not None:
                latest = stored_state(settings, table, seen.stored, listing.latest_version)
                verdicts = report_freshness(instance, table, listing, latest)
                record(store_of(settings), table, found_by_checks(verdicts))
    return answer


def _set_partitions(seen: Seen, plan: Plan) -> tuple[PartitionRequest, ...]:
    """Set the partitions of a plan. A tick requests them with its result, unless versions must be moved for them."""
    if not plan.ranges:  # otherwise the run records the data version
        plan = replace(plan, observation=at_data_version(seen.table, plan.observation, seen.data_change))
    if seen.asked is Asked.TICK and not plan.is_late:
        record_plan(seen.instance, seen.table, plan)
        return partition_requests(seen.table.name, plan)
    apply_to_instance(seen.instance, seen.table, plan)
    sort_partitions(seen.instance, seen.table.name)
    return ()
