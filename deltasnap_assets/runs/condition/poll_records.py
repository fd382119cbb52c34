"""Records in the store the result of each poll of a table, so that the fleet can show it without reading logs.

A poll is recorded by every reader of a log: a run with the results of its checks, the sensor and the schedule with the
latest version, and any code that finds a fault. If polls cannot be recorded, the table becomes unknown after a day. So
a storage failure here does not fail a run or a tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from deltasnap_assets.checks.registry import TABLE_CHECKS, checks_of
from deltasnap_assets.runs import due
from deltasnap_assets.runs.condition.poll_findings import (
    FACTS,
    LOG,
    PollFindings,
    stale_after_ms,
)
from deltasnap_assets.runs.condition.taken_names import other_path
from deltasnap_assets.settings.located import location_to_record
from deltasnap_assets.settings.table_settings import TABLE_ASSET, TableSettings
from deltasnap_core import (
    Problem,
    ProblemKind,
    SnapshotStore,
)
from deltasnap_core.errors import StorageError
from deltasnap_core.support import (
    LastPoll,
    ManifestName,
    logger_of,
    redacted,
    system_clock,
)

_log = logger_of(__name__)


def record(
    store: SnapshotStore, table: TableSettings, found: PollFindings, current: Mapping[int, ManifestName] | None = None
) -> LastPoll | None:
    """Record the result of a poll.

    Nothing is written if only the time changed by less than an hour, or if the store has another table of this name.
    Results that several processes record at the same time are all kept.
    Return the earlier poll of the table in the store; None: there is none, or it cannot be read.
    current: the stored versions, if they are listed already.
    """
    before = None
    try:
        before, points = store.polls.read(table.name), None
        if found.checked_version is not None:
            known = replace(before or LastPoll(polled_at_ms=0), polled_at_ms=system_clock())
            points = store.polls.points(table.name, known, current)
        if other_path(store, table, before) is not None or _new_poll(before, table, found) is None:
            return before
        with store.polls.alone(table.name):
            before = store.polls.read(table.name)  # another process may have recorded a poll in the meantime
            after = _new_poll(before, table, found)
            if after is not None:
                store.polls.write(table.name, after if points is None else replace(after, points=points))
    except StorageError as error:
        _log.warning("Could not record the condition of table %s: %s", table.name, error)
    return before


def _new_poll(before: LastPoll | None, table: TableSettings, found: PollFindings) -> LastPoll | None:
    """Return the poll to write; None: only the time of `before` would change, by less than an hour."""
    now, after = system_clock(), _merged(before or LastPoll(polled_at_ms=0), table, found)
    if before is not None and after.to_bytes() == before.to_bytes():
        times = [before.polled_at_ms, *([before.examined_at_ms or 0] if found.is_examined else [])]
        if all(abs(now - time) < due.RECORDED_AGAIN_MS for time in times):
            return None
    return replace(after, polled_at_ms=now, examined_at_ms=now if found.is_examined else after.examined_at_ms)


def _merged(before: LastPoll, table: TableSettings, found: PollFindings) -> LastPoll:
    """Return the earlier poll with the found facts and problems, and the settings of the table."""
    forgotten = {
        "last_commit_ms": found.latest_version not in (None, before.latest_version),
        "checked_version": found.is_replaced,
        "stale_after_ms": found.checked_version is not None,  # it may have been configured
    }
    facts = {name: fact for name in FACTS if (fact := getattr(found, name)) is not None}
    after = replace(before, **{name: None for name, is_old in forgotten.items() if is_old} | facts)
    problems, configured = _problems(before, found), stale_after_ms(table.checks.fresh_within_hours)
    is_judged = table.checks.fresh_table.enabled
    return replace(
        after,
        unchecked_since_ms=_unchecked_since(before, after) if _is_checked_by_runs(table, after) else None,
        problems=(*chain(*problems.values()), *(each for each in before.problems if each.check not in problems)),
        stale_after_ms=(after.stale_after_ms if configured is None else configured) if is_judged else None,
        small_file_bytes=table.checks.small_file_bytes,
        owners=table.owners,
        path=redacted(table.place),
        location=location_to_record(table, before.location),
    )


def _problems(before: LastPoll, found: PollFindings) -> Mapping[str, tuple[Problem, ...]]:
    """Return the found problems, by name. Only reading the whole log shows that faults of its commits are gone."""
    if found.is_examined or LOG not in found.problems:
        return found.problems
    of_log = found.problems[LOG]
    recorded = [problem for problem in before.problems if problem.check == LOG]
    if any(each.mark == "error" for each in recorded) and not any(each.mark == "error" for each in of_log):
        return {name: problems for name, problems in found.problems.items() if name != LOG}
    known = {each.key for each in of_log}
    kept = (each for each in recorded if each.mark == "warning" and each.key not in known)
    # A problem of a kind that another release recorded may be one of commits.
    of_commits = (each for each in kept if each.kind.is_in_commits or each.kind is ProblemKind.FAILED_CHECK)
    return {**found.problems, LOG: (*of_log, *of_commits)}


def _is_checked_by_runs(table: TableSettings, poll: LastPoll) -> bool:
    """Return whether runs evaluate the checks of the latest version: some version is wanted, and some check enabled."""
    is_enabled = any(check.asset != TABLE_ASSET for check in checks_of(table.checks, TABLE_CHECKS))
    return is_enabled and table.why_none_wanted(poll.latest_version) is None


def _unchecked_since(before: LastPoll, after: LastPoll) -> int | None:
    """Return the time of the first poll that found versions without a check by a run; None: no such versions."""
    latest, checked = after.latest_version, after.checked_version
    if latest is None or (checked is not None and checked >= latest):
        return None
    is_waiting = checked == before.checked_version and before.unchecked_since_ms is not None
    return before.unchecked_since_ms if is_waiting else system_clock()
