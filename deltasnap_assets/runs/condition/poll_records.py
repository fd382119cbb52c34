"""Records in the store the result of each poll of a table, so that the fleet can show it without reading logs.

A poll is recorded by every reader of a log: a run with the results of its checks, the sensor and the schedule with the
latest version, and any code that finds a fault. If polls cannot be recorded, the table becomes unknown after a day. So
a storage failure here does not fail a run or a tick.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import dagster as dg

from deltasnap_assets.checks.check import ADVICE_MARK, FAILED_TO_RUN
from deltasnap_assets.checks.commits.fresh_table import FreshTable
from deltasnap_assets.checks.files.expired_tombstones import ExpiredTombstones
from deltasnap_assets.checks.registry import CONDITION_CHECKS
from deltasnap_assets.runs.condition.reminders import REMINDERS
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import (
    Fault,
    LastPoll,
    LogStatus,
    ManifestName,
    SnapshotStore,
    StaleRule,
    StorageError,
    TableLevel,
    TableProblem,
    logger_of,
    redacted,
    system_clock,
)

LOG = "log"
"""The name of problems that are faults of the log itself."""
RUN = "run"
"""The name of the problem that the last run failed."""
ALL_CHECKS = "checks"
"""The name of the problem that the facts for the checks could not be read."""
VERSIONS = "versions"
"""The name of the problem that the key `versions` selects no version of the log."""
STORE = "store"
"""The name of the problem that the store is damaged."""
NO_VERSIONS_ADVICE = "Correct `versions` in the configuration, or wait for this version."

_HOUR_MS = 60 * 60 * 1000
_RECORDED_AGAIN_MS = _HOUR_MS
_EXAMINED_AGAIN_MS = 24 * _HOUR_MS
_CONDITION_NAMES = frozenset(check.name for check in CONDITION_CHECKS)
_log = logger_of(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierPoll:
    """The facts that the store had about a table before a poll. The defaults mean that there is nothing to do.

    is_known: see `record_poll`. has_old_checks: whether its checks were last evaluated with other settings.
    """

    is_known: bool = True
    has_old_checks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFindings:
    """The facts to record about a table. None: not examined, so the earlier value is kept.

    latest_version, last_commit_ms: of the log.
    problems: by name of the check or other source; empty: no problems.
    vacuum_bytes: of the newest stored version, `facts_version`.
    checked_version, checked_inputs: the newest stored version and `inputs_of_checks`, if checks were evaluated.
    is_replaced: whether the log was replaced, and a run is requested: the earlier checks do not count.
    is_examined:     whether the whole log was read for faults.
    examined_checkpoint: the newest checkpoint (`LogListing.newest_checkpoint`) whose pages were read.
    """

    latest_version: int | None = None
    last_commit_ms: int | None = None
    problems: Mapping[str, tuple[TableProblem, ...]] = field(default_factory=dict)
    stale_rule: StaleRule | None = None
    facts_version: int | None = None
    vacuum_bytes: int | None = None
    checked_version: int | None = None
    checked_inputs: str | None = None
    is_replaced: bool = False
    is_examined: bool = False
    examined_checkpoint: str | None = None


def is_examination_due(store: SnapshotStore, table_name: str) -> bool:
    """Return whether to read the whole log of a table for faults: once a day, and while it has any (warnings: hourly).

    Polls do not detect faults, and runs read only new commits. So neither shows that a fault is gone.
    """
    try:
        poll = store.polls.read(table_name)
    except StorageError:
        return False  # nothing can be recorded
    if poll is None or poll.examined_at_ms is None:
        return True
    faults = {problem.severity for problem in poll.problems if problem.check == LOG}
    patience = 0 if "error" in faults else _HOUR_MS if faults else _EXAMINED_AGAIN_MS
    return abs(system_clock() - poll.examined_at_ms) >= patience


def look_for_new_checkpoint(settings: Settings, table: TableSettings, seen: str | None) -> bool:
    """Return whether an idle poll saw a checkpoint that was not examined. Reads the store once for each checkpoint.

    seen: `LogPoll.checkpoint`.
    """
    if seen is None or not REMINDERS.is_due("checkpoint", settings, table, value=seen):
        return False
    try:
        is_new = has_new_checkpoint(store_of(settings), table.name, seen)
    except StorageError:
        return False  # nothing can be recorded
    REMINDERS.restart("checkpoint", settings, table, seen)
    return is_new


def has_new_checkpoint(store: SnapshotStore, table_name: str, checkpoint: str | None) -> bool:
    """Return whether a checkpoint was never read for faults. checkpoint: `newest_checkpoint`; None: there is none."""
    poll = store.polls.read(table_name)
    return checkpoint is not None and (poll is None or poll.examined_checkpoint != checkpoint)


def is_checkpoint_sound(store: SnapshotStore, table_name: str, checkpoint: str | None) -> bool:
    """Return whether every page of a checkpoint was read without a fault, so that it need not be read again."""
    poll = store.polls.read(table_name)
    if checkpoint is None or poll is None or poll.examined_checkpoint != checkpoint:
        return False
    # Damage may leave the size and time of a file unchanged.
    return not any(problem.kind is not None and problem.kind.is_of_checkpoint for problem in poll.problems)


def known_errors(store: SnapshotStore, table_name: str) -> tuple[TableProblem, ...]:
    """Return the errors of a table that are recorded: the fleet shows it as broken."""
    poll = store.polls.read(table_name)
    return () if poll is None else tuple(problem for problem in poll.problems if problem.severity == "error")


def store_damage(store: SnapshotStore, table_name: str) -> tuple[TableProblem, ...]:
    """Return the damage of the store for which the fleet shows a table as broken; empty: there is none.

    Errors: StorageError.
    """
    status = store.polls.statuses([table_name], system_clock())[table_name]
    if status is None or status.level is not TableLevel.BROKEN or status.check != STORE:
        return ()
    return (TableProblem(check=STORE, severity="error", text=status.reason, advice=status.advice),)


def are_checks_due(
    store: SnapshotStore,
    table: TableSettings,
    newest: int,
    checkpoint: str | None,
    *,
    has_failed: bool,
    is_requested: bool,
) -> bool:
    """Return whether a refresh evaluates the checks again although nothing is new.

    They are due if their results are missing, or were lost, damaged or not written; after a change of the settings,
    and after a checkpoint, which may end a warning; after a failed run, unless a check found an error, which may have
    failed it.
    newest: the newest stored version. checkpoint: `LogListing.newest_checkpoint`.
    has_failed: whether the last run failed after all its versions were materialized: nothing else ends its warning.
    is_requested: a user waits for the answer. Then they are also due if a check found an error, which may be over.
    """
    poll = store.polls.read(table.name)
    if poll is None or poll.checked_version is None or poll.checked_version < newest:
        return True
    if poll.checked_inputs not in (None, inputs_of_checks(table, checkpoint)):
        return True
    errors = {problem.check for problem in poll.problems if problem.severity == "error"} - {LOG}
    if is_requested:
        return has_failed or bool(errors)
    return (has_failed or ALL_CHECKS in errors) and errors <= {RUN, ALL_CHECKS}


def inputs_of_checks(table: TableSettings, checkpoint: str | None) -> str:
    """Return digests of the inputs of a version's checks that no commit changes: settings, then checkpoint."""
    return digest_of_settings(table) + _digest(str(checkpoint))


def digest_of_settings(table: TableSettings) -> str:
    """Return a digest of the settings of the checks of a table."""
    return _digest(table.checks.model_dump_json())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def has_old_checks(store: SnapshotStore, table: TableSettings) -> bool:
    """Return whether the checks were last evaluated with other settings. A new checkpoint does not count."""
    return _has_old_checks(store.polls.read(table.name), table)


def _has_old_checks(poll: LastPoll | None, table: TableSettings) -> bool:
    inputs = None if poll is None else poll.checked_inputs
    return inputs is not None and not inputs.startswith(digest_of_settings(table))


def known_faults(store: SnapshotStore, table_name: str) -> tuple[Fault, ...]:
    """Return the recorded faults of a table's log that only reading its commits detects."""
    poll = store.polls.read(table_name)
    problems = () if poll is None else poll.problems
    return tuple(
        Fault(kind=problem.kind, text=problem.text, advice=problem.advice)
        for problem in problems
        if problem.kind is not None and problem.kind.is_in_commits
    )


def record_poll(
    settings: Settings, table: TableSettings, status: LogStatus | None = None, followed: int | None = None
) -> EarlierPoll:
    """Record that a poll read the log of a table, and return what the store knew of the table before.

    It is recorded at once if there are new commits, otherwise every hour. The store is read only then, and knows the
    table if it recorded it as far as it was followed: not if it was lost, replaced by an older copy, or cannot be read.
    status: its result; None: no new commits. followed: the version of the cursor; None: not followed yet. Faults are
    recorded separately, where they are reported.
    """
    if not is_record_due(settings, table, status, followed):
        return EarlierPoll()
    latest = followed if status is None else status.latest
    commit = None if status is None else status.commits.get(status.latest)
    found = PollFindings(
        latest_version=latest,
        last_commit_ms=None if commit is None else commit.modification_time,
        problems={VERSIONS: _none_wanted(table, latest)},
    )
    before = record(store_of(settings), table, found)
    is_known = before is not None and (before.latest_version is None or before.latest_version >= (followed or 0))
    if is_known or status is not None:  # otherwise the next tick reads the store again
        REMINDERS.restart("poll", settings, table, latest)
    return EarlierPoll(is_known=is_known, has_old_checks=_has_old_checks(before, table))


def is_record_due(settings: Settings, table: TableSettings, status: LogStatus | None, followed: int | None) -> bool:
    """Return whether `record_poll` would record a poll."""
    latest = followed if status is None else status.latest
    return REMINDERS.is_due("poll", settings, table, seconds=_RECORDED_AGAIN_MS / 1000, value=latest)


def _none_wanted(table: TableSettings, latest: int | None) -> tuple[TableProblem, ...]:
    text = table.why_none_wanted(latest)
    if text is None:
        return ()
    return (TableProblem(check=VERSIONS, severity="warning", text=text, advice=NO_VERSIONS_ADVICE),)


def record(
    store: SnapshotStore, table: TableSettings, found: PollFindings, current: Mapping[int, ManifestName] | None = None
) -> LastPoll | None:
    """Record the result of a poll. Nothing is written if only the time changed by less than an hour.

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
        if _new_poll(before, table, found) is None:
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
    if before is not None and after == before and abs(now - before.polled_at_ms) < _RECORDED_AGAIN_MS:
        is_late = before.examined_at_ms is None or abs(now - before.examined_at_ms) >= _RECORDED_AGAIN_MS
        if not (found.is_examined and is_late):
            return None
    return replace(after, polled_at_ms=now, examined_at_ms=now if found.is_examined else after.examined_at_ms)


def found_by_checks(results: Iterable[dg.AssetCheckResult]) -> PollFindings:
    """Return the problems found by evaluated checks.

    Checks of the log's condition are omitted, unless they failed to run, because its faults are recorded.
    `fresh_table` is recorded as the rule for when the table becomes stale, because that happens without runs.
    """
    problems, rule, vacuum = dict[str, tuple[TableProblem, ...]](), None, None
    for result in results:
        name = result.check_name or ""
        text, _, advice = (result.description or "").partition(ADVICE_MARK)
        is_of_the_log = name in _CONDITION_NAMES and not text.startswith(FAILED_TO_RUN)
        if name == FreshTable.name and (found := _stale_rule(result)) is not None:
            rule, problems[name] = found, ()
        elif not is_of_the_log:
            is_error = result.severity is dg.AssetCheckSeverity.ERROR
            problem = TableProblem(check=name, severity="error" if is_error else "warning", text=text, advice=advice)
            problems[name] = () if result.passed else (problem,)
        if name == ExpiredTombstones.name:
            vacuum = _number(result, "expired_bytes")
    return PollFindings(problems=problems, stale_rule=rule, vacuum_bytes=None if vacuum is None else int(vacuum))


def _stale_rule(result: dg.AssetCheckResult) -> StaleRule | None:
    return _rule(_number(result, "hours_expected"))


def _configured_rule(table: TableSettings) -> StaleRule | None:
    """Return the rule of the configuration, which may have changed since the last run; None: it has none."""
    return _rule(table.checks.fresh_within_hours)


def _rule(hours: float | None) -> StaleRule | None:
    if hours is None:
        return None
    return StaleRule(patience_ms=int(hours * _HOUR_MS), check=FreshTable.name, advice=FreshTable.advice)


def _number(result: dg.AssetCheckResult, name: str) -> float | None:
    entry = (result.metadata or {}).get(name)
    value = entry.value if isinstance(entry, dg.MetadataValue) else entry
    return value if isinstance(value, int | float) else None


def _merged(before: LastPoll, table: TableSettings, found: PollFindings) -> LastPoll:
    replaced = _replaced(before, found)
    kept = [problem for problem in before.problems if problem.check not in replaced]
    new = [problem for problems in replaced.values() for problem in problems]
    is_same = found.latest_version in (None, before.latest_version)
    latest = before.latest_version if found.latest_version is None else found.latest_version
    earlier = None if found.is_replaced else before.checked_version
    earlier_rule = before.stale_rule if found.checked_version is None else None  # it may have been configured
    checked = earlier if found.checked_version is None else found.checked_version
    return replace(
        before,
        latest_version=latest,
        last_commit_ms=before.last_commit_ms if is_same and found.checked_version is None else found.last_commit_ms,
        checked_version=checked,
        checked_inputs=found.checked_inputs or before.checked_inputs,
        examined_checkpoint=found.examined_checkpoint or before.examined_checkpoint,
        unchecked_since_ms=None if table.why_none_wanted(latest) else _unchecked_since(before, latest, checked),
        problems=(*new, *kept),
        stale_rule=_configured_rule(table) or found.stale_rule or earlier_rule,
        small_file_bytes=table.checks.small_file_bytes,
        facts_version=before.facts_version if found.facts_version is None else found.facts_version,
        vacuum_bytes=before.vacuum_bytes if found.vacuum_bytes is None else found.vacuum_bytes,
        owners=table.owners,
        path=redacted(table.path),
    )


def _replaced(before: LastPoll, found: PollFindings) -> Mapping[str, tuple[TableProblem, ...]]:
    """Return the found problems, by name. Only reading the whole log shows that faults of its commits are gone."""
    if found.is_examined or LOG not in found.problems:
        return found.problems
    of_log = found.problems[LOG]
    known = any(problem.check == LOG and problem.severity == "error" for problem in before.problems)
    if known and not any(problem.severity == "error" for problem in of_log):
        return {name: problems for name, problems in found.problems.items() if name != LOG}
    in_commits = [each for each in before.problems if each.kind is not None and each.kind.is_in_commits]
    return {**found.problems, LOG: (*of_log, *(each for each in in_commits if each not in of_log))}


def _unchecked_since(before: LastPoll, latest: int | None, checked: int | None) -> int | None:
    """Return the time of the first poll that found versions without a check by a run; None: no such versions."""
    if latest is None or (checked is not None and checked >= latest):
        return None
    is_waiting = checked == before.checked_version and before.unchecked_since_ms is not None
    return before.unchecked_since_ms if is_waiting else system_clock()
