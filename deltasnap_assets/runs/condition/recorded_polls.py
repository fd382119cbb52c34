"""Answers questions about a table from its last recorded poll: what is known, and what is due."""

from __future__ import annotations

import hashlib

from deltasnap_assets.runs.condition.poll_findings import ALL_CHECKS, LOG, RUN, STORE
from deltasnap_assets.runs.condition.reminders import REMINDERS
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import Fault, LastPoll, SnapshotStore, StorageError, TableLevel, TableProblem, system_clock

_HOUR_MS = 60 * 60 * 1000
_EXAMINED_AGAIN_MS = 24 * _HOUR_MS


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
    return is_checked_with_other_settings(store.polls.read(table.name), table)


def is_checked_with_other_settings(poll: LastPoll | None, table: TableSettings) -> bool:
    """Return whether a poll has the results of checks with other settings. poll: None: there is none."""
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
