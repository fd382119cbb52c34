"""Decides what to do about a table that was seen: the partitions to set, the runs to request, what to read and to say.

It reads and changes nothing. The sensor, the schedule and `refresh` all decide here, and differ by `Asked`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import dagster as dg

from deltasnap_assets.quantities import HOUR_MS
from deltasnap_assets.runs.condition.poll_findings import (
    LOG,
    STORED_VERSIONS,
    UNSHARED_STORE,
    VERSIONS,
    PollFindings,
    known_errors,
)
from deltasnap_assets.runs.due import (
    Examination,
    are_checks_due,
    digest_of_settings,
    examination_without_run,
    has_new_checkpoint,
    has_old_checks,
    is_examination_due,
)
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.names import CHECKS_TAG, REFRESH_JOB
from deltasnap_assets.runs.planning.plan import Plan, Stored, nothing_to_do, plan
from deltasnap_assets.runs.table_runs import versions_of_run
from deltasnap_assets.settings.config import TableSettings
from deltasnap_assets.texts import without_secrets
from deltasnap_core import LogStatus, Problem, ProblemKind, TableCondition, VersionRanges, Where

LOOK_MS = HOUR_MS
"""How often ticks without new commits read the whole table."""
PAGE_MS = 60_000
"""How often they read whether another process found the table to be broken."""


class TableState(Enum):
    """What a tick finds. A table whose log cannot be found or listed has no state: reading it fails."""

    NEW = "new"
    """It was never followed, or the store lost what was recorded about it."""
    FOLLOWING = "following"
    """Every commit was followed."""
    BEHIND = "behind"
    """There are new commits. Once an hour it counts as behind without any: what was lost or wiped is found then."""
    RETRYING = "retrying"
    """A run may be dead, and its versions are requested once more."""
    BROKEN = "broken"
    """Versions cannot be loaded, or could not when the log was last read."""


class Wait(NamedTuple):
    """Do nothing now, and say why."""

    text: str
    is_problem: bool = False


class Say(NamedTuple):
    """Show a message if no run is requested."""

    text: str
    is_problem: bool = False


class SetPartitions(NamedTuple):
    """Drop and add the partitions of a plan, and record its observation."""

    plan: Plan


class Request(NamedTuple):
    """Request a run of the versions first to last. checks: a digest of their settings, if it only evaluates them."""

    first: int
    last: int
    checks: str | None = None


class Follow(NamedTuple):
    """The sensor continues after a version of the log; None: after the latest."""

    version: int | None = None


class Break(NamedTuple):
    """The sensor pauses before it polls a table again that has a fault."""

    fault: str


class Record(NamedTuple):
    """Record facts in the document of the table."""

    found: PollFindings


class Report(NamedTuple):
    """Record a condition on the page of the table, in its checks and in its document."""

    condition: TableCondition


class ReportFreshness(NamedTuple):
    """Record whether the table is stale."""


class Examine(NamedTuple):
    """Read the log for faults, report them, and decide again.

    is_brief: if it takes longer than a few seconds, the next steps follow, and a later tick reports the faults.
    """

    what: Examination
    is_brief: bool = True


class Looked(NamedTuple):
    """Remember that the records of the table were read: the next ticks without new commits do not read them."""


class Fail(NamedTuple):
    """Raise an error."""

    error: Exception


Step = (
    Wait | Say | SetPartitions | Request | Follow | Break | Record | Report | ReportFreshness | Examine | Looked | Fail
)


def decide(seen: Seen, now_ms: int) -> tuple[Step, ...]:
    """Return what to do about a table, in order. Errors: those of reading what was not read yet."""
    if (run_id := seen.runs.active) is not None:
        later = " The next run materializes the new commits." if seen.asked is Asked.TICK else ""
        return (Wait(f"Run {run_id} of {seen.table.name} is in progress.{later}"),)
    if seen.asked is not Asked.TICK:
        return tuple(_work(seen, now_ms))
    pause_ms = seen.state.pause_left_ms(now_ms)
    if pause_ms > 0 and seen.page.is_unloadable:  # no run, schedule or refresh has found it repaired
        text = f"{seen.table.name} is broken: {seen.state.fault} Next poll in {pause_ms / 1000:.0f} s."
        return (Wait(text, is_problem=True),)
    if _has_failed_lately(seen):
        return (Examine(Examination.WHOLE_LOG, is_brief=False),)
    if state_of(seen, now_ms) is TableState.FOLLOWING:
        return tuple(_follow(seen, now_ms))
    return tuple(_work(seen, now_ms))


def state_of(seen: Seen, now_ms: int) -> TableState:
    """Return the state in which a tick finds a table."""
    if seen.state.fault is not None:
        return TableState.BROKEN
    if seen.news is None:
        return TableState.NEW
    if seen.news.status is not None or (seen.looked_ms is not None and _is_due(seen.looked_ms, now_ms, LOOK_MS)):
        return TableState.BEHIND
    if seen.silent is not None and not seen.silent.was_repeated:
        return TableState.RETRYING
    is_page_due = seen.examined is not None or _is_due(seen.page_read_ms, now_ms, PAGE_MS)
    if (is_page_due or seen.runs.failed is not None) and seen.page.is_unloadable:
        return TableState.BROKEN
    if seen.looked_ms is None and seen.is_document_lost:
        return TableState.NEW
    return TableState.FOLLOWING


def _follow(seen: Seen, now_ms: int) -> Iterator[Step]:
    """Yield what to do without new commits. The records of the table are read only if something changed."""
    if seen.looked_ms is not None:
        if seen.is_examined_now and seen.examined is None:
            yield Examine(Examination.WHOLE_LOG)
        yield _idle(seen)
        return
    yield Record(_findings(seen.table, None if seen.cursor is None else seen.cursor.version))
    yield from _sharing(seen)
    checkpoint = None if seen.news is None else seen.news.checkpoint
    if seen.examined is None and (seen.is_examined_now or is_examination_due(seen.document, now_ms)):
        yield Examine(Examination.WHOLE_LOG)
    elif seen.examined is None and has_new_checkpoint(seen.document, checkpoint):
        yield Examine(Examination.NEW_CHECKPOINT)
    digest = digest_of_settings(seen.table)
    if has_old_checks(seen.document, seen.table) and _run_for_checks(seen, digest) is None and seen.known.done:
        yield Request(max(seen.known.done), max(seen.known.done), digest)
    yield Looked()
    yield _idle(seen)


def _work(seen: Seen, now_ms: int) -> Iterator[Step]:
    """Yield what to do after the log was read: request what is missing, or report the condition of the table."""
    polled = Record(_findings(seen.table, seen.status.latest, seen.status, seen.stored))
    if seen.is_complete:
        if seen.examined is None:
            yield polled
            yield from [Examine(Examination.WHOLE_LOG, is_brief=False)] if _is_suspect(seen) else []
        return
    yield from () if seen.stored is None else _sharing(seen)
    todo = plan(seen.table, seen.status, seen.known, seen.stored if _is_shared(seen) else None)
    in_vain = _run_in_vain(seen, todo)
    if seen.examined is None and (seen.asked is Asked.TICK or not todo.ranges):
        yield polled
    if in_vain is None:
        yield SetPartitions(todo)
    if in_vain is None and todo.ranges:
        if seen.stored is not None and not seen.stored.common.is_continued:
            yield Record(PollFindings(is_replaced=True))  # the requested run may never start
        yield from (Request(*versions) for versions in todo.ranges)
        if seen.asked is Asked.TICK:
            yield Follow(todo.last)
        return
    examination = None if seen.examined is not None else _examination(seen, now_ms)
    if examination is not None:
        yield Examine(examination, is_brief=seen.asked is not Asked.USER)
    condition = seen.status.condition if seen.examined is None else seen.examined
    fault = without_secrets(condition.text) if condition is not None and condition.unloadable else None
    yield from _end_of_tick(seen, fault, in_vain) if seen.asked is Asked.TICK else _end(seen, fault)


def _end(seen: Seen, fault: str | None) -> Iterator[Step]:
    """Yield the end of a schedule or a refresh without missing versions. fault: why versions cannot be loaded."""
    if seen.asked is Asked.SCHEDULE:
        yield ReportFreshness()
    newest = None if seen.failure is not None else _version_with_due_checks(seen)
    if newest is not None and _is_shared(seen):
        yield Request(newest, newest, digest_of_settings(seen.table))
    yield Say(fault or nothing_to_do(seen.table, seen.status))


def _end_of_tick(seen: Seen, fault: str | None, in_vain: str | None) -> Iterator[Step]:
    """Yield the end of a tick that requests no run. in_vain: the run that it would only repeat."""
    said = Say(nothing_to_do(seen.table, seen.status)) if in_vain is None else _waiting(seen, in_vain)
    if in_vain is None:
        yield Follow()
    if fault is None:
        yield Looked()
        yield said
        return
    if seen.examined is None and seen.status.condition is not None:
        yield Report(seen.status.condition)
    yield Break(fault)
    done = f"All loadable versions of {seen.table.name} are materialized."
    yield Say(f"{said.text if said.is_problem else done} {fault}", is_problem=True)


def _idle(seen: Seen) -> Say:
    """Return the message without new commits. It names a run that left versions missing."""
    if seen.silent is not None:
        return _waiting(seen, seen.silent.record.dagster_run.run_id)
    if seen.runs.failed is not None and seen.page.failed_run is not None:
        return _waiting(seen, seen.page.failed_run)
    return Say(f"No new commits in {seen.table.name}.")


def _waiting(seen: Seen, run_id: str) -> Say:
    """Return the message that no versions are requested again that a run left missing."""
    is_silent = seen.silent is not None and seen.silent.record.dagster_run.run_id == run_id
    what = "has written no event for ten minutes, and may be dead" if is_silent else "failed or was canceled"
    text = (
        f"Run {run_id} of {seen.table.name} {what}. The next commit, the schedule or the job `{REFRESH_JOB}` "
        "materializes what is missing."
    )
    return Say(text, is_problem=True)


def _is_due(at_ms: float | None, now_ms: int, patience_ms: int) -> bool:
    return at_ms is None or abs(now_ms - at_ms) >= patience_ms


def _has_failed_lately(seen: Seen) -> bool:
    """Return whether a run failed that the page does not show yet."""
    if seen.runs.failed is None or seen.examined is not None or seen.looked_ms is not None:
        return False
    return seen.failed is not None and seen.failed.where.name != seen.page.failed_run


def _run_in_vain(seen: Seen, todo: Plan) -> str | None:
    """Return the id of a run that the plan of a tick would only repeat, without a reason; None: there is none.

    A plan that has versions after the cursor is no repetition. Without them, it repeats the request of a silent run
    once, and that of a run that failed or was canceled only if there is a reason in the log.
    """
    if seen.asked is not Asked.TICK or seen.cursor is None or seen.status.is_fork:
        return None
    if todo.last is None or todo.last > seen.cursor.version:
        return None
    if seen.silent is not None and not seen.silent.was_repeated:
        return None
    silent = None if seen.silent is None else seen.silent.record
    records = [record for record in (seen.last_failed, silent) if record is not None]
    if not records:
        return None
    last = max(records, key=lambda record: record.update_timestamp)
    run, ended = last.dagster_run, last.update_timestamp.timestamp()
    return None if _has_reason_to_repeat(seen.status, ended, versions_of_run(run)) else run.run_id


def _has_reason_to_repeat(status: LogStatus, ended: float, versions: range) -> bool:
    """Return whether the log shows a reason to request versions again whose run did not materialize them.

    A reason is a commit newer than the run, or a version of it that cannot be loaded: the others may be.
    ended: in s since the epoch. versions: of the run.
    """
    commit = status.commits.get(status.latest)
    is_newer = commit is not None and commit.modification_time > ended * 1000
    unloadable = VersionRanges() if status.condition is None else status.condition.unloadable
    return is_newer or unloadable.overlaps(VersionRanges.of(versions))


def _examination(seen: Seen, now_ms: int) -> Examination | None:
    """Return what to read for faults, because no run will; None: nothing."""
    condition = seen.status.condition
    if seen.stored is None or (seen.asked is Asked.TICK and condition is not None and condition.unloadable):
        return None
    return examination_without_run(
        seen.document,
        now_ms,
        seen.status,
        seen.stored,
        is_suspect=seen.failed is not None or seen.page.has_fault,
        is_requested=seen.asked is Asked.USER,
    )


def _is_suspect(seen: Seen) -> bool:
    """Return whether a refresh reads the whole log after its runs, which read only new commits."""
    condition = seen.status.condition
    is_damaged = condition is not None and bool(condition.unloadable)
    return is_damaged or seen.failure is not None or any(error.check == LOG for error in known_errors(seen.document))


def _version_with_due_checks(seen: Seen) -> int | None:
    """Return the newest materialized version if its checks are due, see `are_checks_due`; None: they are not."""
    newest = max(seen.known.done.intersection(seen.status.versions), default=None)
    if newest is None:
        return None
    is_requested, listing = seen.asked is Asked.USER, seen.status.listing
    if not are_checks_due(
        seen.document,
        seen.table,
        newest,
        seen.status.latest,
        None if listing is None else listing.newest_checkpoint,
        has_failed=seen.failed is not None and not seen.failed.where.versions,
        is_requested=is_requested,
    ):
        return None
    if is_requested or not has_old_checks(seen.document, seen.table):
        return newest
    run = _run_for_checks(seen, digest_of_settings(seen.table))
    return None if run is not None and run.is_success else newest  # it had loaded other settings


def _run_for_checks(seen: Seen, digest: str) -> dg.DagsterRun | None:
    """Return the last run that was requested for the checks; None: there is none, or it had other settings."""
    run = seen.last_for_checks
    return run if run is not None and run.tags[CHECKS_TAG] == digest else None


def _is_shared(seen: Seen) -> bool:
    """Return whether runs store their versions in this store. If not, what it has says nothing about the runs."""
    return seen.stored is None or seen.unshared is None


def _sharing(seen: Seen) -> Iterator[Step]:
    """Yield an error once, and record it, if runs store their versions elsewhere."""
    known = () if seen.document is None else seen.document.problems
    if (seen.unshared is not None) == any(problem.check == UNSHARED_STORE for problem in known):
        return
    problems = () if seen.unshared is None else (seen.unshared.problem,)
    yield Record(PollFindings(problems={UNSHARED_STORE: problems}))
    if seen.unshared is not None:
        yield Fail(seen.unshared)


def _findings(
    table: TableSettings, latest: int | None, status: LogStatus | None = None, stored: Stored | None = None
) -> PollFindings:
    """Return what a poll found. latest: the version of the log. status, stored: None: there are no new commits."""
    commit = None if status is None else status.commits.get(status.latest)
    problems = {VERSIONS: _none_wanted(table, latest)}
    if stored is not None:
        problems[STORED_VERSIONS] = _unreadable(stored)
    last_commit_ms = None if commit is None else commit.modification_time
    return PollFindings(latest_version=latest, last_commit_ms=last_commit_ms, problems=problems)


def _none_wanted(table: TableSettings, latest: int | None) -> tuple[Problem, ...]:
    reason = table.why_none_wanted(latest)
    return () if reason is None else (Problem.of(ProblemKind.NO_WANTED_VERSION, reason=reason),)


def _unreadable(stored: Stored) -> tuple[Problem, ...]:
    """Return the problem of stored versions that lack a file and cannot be stored again."""
    if not stored.unreadable:
        return ()
    where, reason = Where.of(None, *stored.unreadable), next(iter(stored.unreadable.values()))
    return (Problem.of(ProblemKind.LOST_FILES, where, reason=reason),)
