"""Decides what to do about a table that was seen: the partitions to set, the runs to request, what to read and to say.

It reads and changes nothing. The sensor, the schedule and `refresh` all decide here, and differ by `Asked`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from deltasnap_assets.checks.facts import CountedFiles
from deltasnap_assets.quantities import HOUR_MS
from deltasnap_assets.runs.condition.poll_findings import (
    ALL_CHECKS,
    LOG,
    RUN,
    STORED_VERSIONS,
    UNSHARED_STORE,
    VERSIONS,
    PollFindings,
)
from deltasnap_assets.runs.due import SHORT_LOG, inputs_of_checks, is_examination_due
from deltasnap_assets.runs.observe import Asked, Seen
from deltasnap_assets.runs.planning.names import REFRESH_JOB
from deltasnap_assets.runs.planning.plan import Plan, Stored, nothing_to_do, plan
from deltasnap_assets.runs.table_runs import MissedRun, versions_of_run
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.texts import without_secrets
from deltasnap_core import LogStatus, Problem, ProblemKind, TableCondition, VersionRanges, Where

LOOK_MS = HOUR_MS
"""How often ticks without new commits read the records of a table and its whole log."""
BROKEN_MS = 60_000
"""How often ticks read a broken table."""


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


class Say(NamedTuple):
    """Show a message if no run is requested."""

    text: str
    is_problem: bool = False


class Request(NamedTuple):
    """Request a run of the versions first to last."""

    first: int
    last: int


class Follow(NamedTuple):
    """The sensor continues after a version of the log; None: after the latest."""

    version: int | None = None


class Do(Enum):
    """A step without a value."""

    REPORT_FRESHNESS = "report freshness"
    """Record whether the table is stale."""
    EXAMINE = "examine"
    """Read the whole log for faults, report them, and decide again."""


class Looked(NamedTuple):
    """Remember that the records of the table were read, and why versions cannot be loaded (None: they can)."""

    fault: str | None = None


Step = Say | Plan | Request | Follow | PollFindings | TableCondition | Do | Looked
"""One thing to do. Of a plan: drop and add its partitions, and record its observation. Of findings: record them in the
document of the table. Of a condition: report it on the page of the table, in its checks and in its document.
"""


def decide(seen: Seen, now_ms: int) -> tuple[Step, ...]:
    """Return what to do about a table, in order. Errors: those of reading what was not read yet."""
    if (run_id := seen.runs.active) is not None:
        later = " The next run materializes the new commits." if seen.asked is Asked.TICK else ""
        return (Say(f"Run {run_id} of {seen.table.name} is in progress.{later}"),)
    if seen.asked is not Asked.TICK:
        return tuple(_work(seen, now_ms))
    if (look := seen.look) is not None and look.fault is not None and not _is_due(look.at_ms, now_ms, BROKEN_MS):
        seconds = (look.at_ms + BROKEN_MS - now_ms) / 1000
        return (Say(f"{seen.table.name} is broken: {look.fault} Next poll in {seconds:.0f} s.", is_problem=True),)
    if _has_failed_lately(seen):
        return (Do.EXAMINE,)
    if state_of(seen, now_ms) is TableState.FOLLOWING:
        return tuple(_follow(seen, now_ms))
    return tuple(_work(seen, now_ms))


def state_of(seen: Seen, now_ms: int) -> TableState:
    """Return the state in which a tick finds a table."""
    look = seen.look
    if look is not None and look.fault is not None:
        return TableState.BROKEN
    if seen.cursor is None:
        return TableState.NEW
    if seen.news is not None or (look is not None and _is_due(look.at_ms, now_ms, LOOK_MS)):
        return TableState.BEHIND
    if seen.runs.silent and seen.missed is not None and not seen.missed.is_last_attempt:
        return TableState.RETRYING
    if look is None and seen.page.is_unloadable:
        return TableState.BROKEN
    if look is None and seen.is_document_lost:
        return TableState.NEW
    return TableState.FOLLOWING


def _follow(seen: Seen, now_ms: int) -> Iterator[Step]:
    """Yield what to do without new commits. The records of the table are read only once an hour."""
    if seen.look is None:
        yield _findings(seen, None if seen.cursor is None else seen.cursor.version)
        if seen.examined is None and is_examination_due(seen.document, now_ms):
            yield Do.EXAMINE
        yield Looked()
    yield _idle(seen)


def _work(seen: Seen, now_ms: int) -> Iterator[Step]:
    """Yield what to do after the log was read: request what is missing, or report the condition of the table."""
    is_tick, status = seen.asked is Asked.TICK, seen.status
    polled = _findings(seen, status.latest, status, seen.stored)
    if seen.is_complete:
        if seen.examined is None:
            yield polled
            yield from [Do.EXAMINE] if _is_to_examine(seen, now_ms) else []
        return
    todo = plan(seen.table, status, seen.known, seen.stored if _is_shared(seen) else None)
    in_vain = _run_in_vain(seen, todo)
    if seen.examined is None and (is_tick or not todo.ranges):
        yield polled
    if in_vain is None:
        yield todo
    if in_vain is None and todo.ranges:
        if seen.stored is not None and not seen.stored.common.is_continued:
            yield PollFindings(is_replaced=True)  # the requested run may never start
        yield from (Request(*versions) for versions in todo.ranges)
        yield from [Follow(todo.last)] if is_tick else []
        return
    if _is_to_examine(seen, now_ms):
        yield Do.EXAMINE
    condition = status.condition if seen.examined is None else seen.examined
    fault = without_secrets(condition.text) if condition is not None and condition.unloadable else None
    yield from _end_of_tick(seen, fault, in_vain) if is_tick else _end(seen, fault)


def _end(seen: Seen, fault: str | None) -> Iterator[Step]:
    """Yield the end of a schedule or a refresh without missing versions. fault: why versions cannot be loaded."""
    if seen.asked is Asked.SCHEDULE:
        yield Do.REPORT_FRESHNESS
    newest = max(seen.known.done.intersection(seen.status.versions), default=None)
    if newest is not None and seen.failure is None and _is_shared(seen) and _has_due_checks(seen, newest):
        yield Request(newest, newest)
    yield Say(fault, is_problem=True) if fault is not None else _done(seen)


def _end_of_tick(seen: Seen, fault: str | None, in_vain: MissedRun | None) -> Iterator[Step]:
    """Yield the end of a tick that requests no run. in_vain: the run that it would only repeat."""
    said = _done(seen) if in_vain is None else _waiting(seen, in_vain.run_id)
    if in_vain is None:
        yield Follow()
    yield Looked(fault)
    if fault is None:
        yield said
        return
    if seen.examined is None and seen.status.condition is not None:
        yield seen.status.condition
    done = f"All loadable versions of {seen.table.name} are materialized."
    yield Say(f"{said.text if said.is_problem else done} {fault}", is_problem=True)


def _done(seen: Seen) -> Say:
    """Return the message that nothing is left to materialize."""
    unshared = None if seen.stored is None else seen.unshared
    return Say(nothing_to_do(seen.table, seen.status)) if unshared is None else Say(unshared, is_problem=True)


def _idle(seen: Seen) -> Say:
    """Return the message without new commits. It names a run that left versions missing."""
    if seen.runs.silent and seen.missed is not None:
        return _waiting(seen, seen.missed.run_id)
    if seen.runs.failed is not None and seen.page.failed_run is not None:
        return _waiting(seen, seen.page.failed_run)
    if seen.look is None and seen.unshared is not None:
        return Say(seen.unshared, is_problem=True)
    return Say(f"No new commits in {seen.table.name}.")


def _waiting(seen: Seen, run_id: str) -> Say:
    """Return the message that no versions are requested again that a run left missing."""
    is_silent = any(record.dagster_run.run_id == run_id for record in seen.runs.silent)
    what = "has written no event for ten minutes, and may be dead" if is_silent else "failed or was canceled"
    job = seen.settings.own_name(REFRESH_JOB)
    text = (
        f"Run {run_id} of {seen.table.name} {what}. The next commit, the schedule or the job `{job}` "
        "materializes what is missing."
    )
    return Say(text, is_problem=True)


def _is_due(at_ms: int, now_ms: int, patience_ms: int) -> bool:
    return abs(now_ms - at_ms) >= patience_ms


def _has_failed_lately(seen: Seen) -> bool:
    """Return whether a run failed that the page does not show yet."""
    if seen.runs.failed is None or seen.examined is not None or seen.look is not None:
        return False
    return seen.failed is not None and seen.failed.where.name != seen.page.failed_run


def _run_in_vain(seen: Seen, todo: Plan) -> MissedRun | None:
    """Return the run that the plan of a tick would only repeat, without a reason; None: there is none.

    A plan that has versions after the cursor is no repetition. Without them, it repeats the request of a silent run
    once, and that of a run that failed or was canceled only for a reason in the log: a commit newer than the run, or a
    version of it that cannot be loaded, so that the others may be.
    """
    if seen.asked is not Asked.TICK or seen.cursor is None or seen.status.is_fork:
        return None
    if todo.last is None or todo.last > seen.cursor.version:
        return None
    if seen.missed is None or not seen.missed.is_last_attempt:
        return None
    record, commit = seen.missed.record, seen.status.commits.get(seen.status.latest)
    is_newer = commit is not None and commit.modification_time > record.update_timestamp.timestamp() * 1000
    condition, versions = seen.status.condition, VersionRanges.of(versions_of_run(record.dagster_run))
    has_reason = is_newer or (condition is not None and condition.unloadable.overlaps(versions))
    return None if has_reason else seen.missed


def _is_to_examine(seen: Seen, now_ms: int) -> bool:
    """Return whether to read the whole log for faults, because no run will.

    It is read if an examination is due, if the poll found faults or that the log lost versions, and if the last run
    failed or the page shows a fault. If a user waits for the answer, a short log is always read, unless runs read it.
    """
    if seen.examined is not None or seen.stored is None:
        return False
    condition, listing = seen.status.condition, seen.status.listing
    if seen.asked is Asked.TICK and condition is not None and condition.unloadable:
        return False  # reported as it is
    is_damaged = condition is not None and bool(condition.faults)
    is_read = seen.asked is not Asked.USER or seen.is_complete
    is_short = not is_read and listing is not None and len(listing.commits) <= SHORT_LOG
    has_lost = bool(seen.stored.common.lost)
    return is_damaged or has_lost or is_short or seen.is_suspect or is_examination_due(seen.document, now_ms)


def _has_due_checks(seen: Seen, newest: int) -> bool:
    """Return whether the checks are evaluated again although nothing is new.

    They are due
    - if there are no results of the newest version or a later one of the log: they were lost, damaged or not written,
      or they are those of a version that a rollback removed
    - after a change of the settings, and after a checkpoint, which may end a warning
    - if they used facts about the files of an earlier version, which may be counted again now: see `is_count_due`
    - after a failed run that left nothing missing, unless a check found an error, which may have failed it
    - if a user waits for the answer, and a check found an error, which may be over
    newest: the newest materialized version.
    """
    document, listing = seen.document, seen.status.listing
    if document is None or document.checked_version is None:
        return True
    if not newest <= document.checked_version <= seen.status.latest:
        return True
    checkpoint = None if listing is None else listing.newest_checkpoint
    if document.checked_inputs not in (None, inputs_of_checks(seen.table, checkpoint)):
        return True
    counted = CountedFiles.from_json(document.counted_files)
    is_old = counted is not None and abs(document.polled_at_ms - counted.counted_at_ms) >= HOUR_MS
    if counted is not None and counted.version < newest and is_old:
        return True
    has_failed = seen.failed is not None and not seen.failed.where.versions
    errors = {problem.check for problem in document.problems if problem.severity == "error"} - {LOG}
    if seen.asked is Asked.USER:
        return has_failed or bool(errors)
    return (has_failed or ALL_CHECKS in errors) and errors <= {RUN, ALL_CHECKS}


def _is_shared(seen: Seen) -> bool:
    """Return whether runs store their versions in this store. If not, what it has says nothing about the runs."""
    return seen.stored is None or seen.unshared is None


def _findings(
    seen: Seen, latest: int | None, status: LogStatus | None = None, stored: Stored | None = None
) -> PollFindings:
    """Return what a poll found. latest: the version of the log. status, stored: None: there are no new commits."""
    commit = None if status is None else status.commits.get(status.latest)
    problems = {VERSIONS: _none_wanted(seen.table, latest)}
    if stored is not None:
        problems[STORED_VERSIONS] = _unreadable(stored)
    if stored is not None or status is None:
        problems[UNSHARED_STORE] = () if seen.unshared is None else (Problem.of(ProblemKind.UNSHARED_STORE),)
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
