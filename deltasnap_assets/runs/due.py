"""Decides when a log is read for faults, and when the checks of a table are evaluated again.

Functions over values: what a poll saw, what was recorded, the settings and the time. The sensor, the schedule,
`refresh` and runs all decide here. `plan` decides which versions a run materializes. A poll only lists the log. These
read it for faults:

    a run                   commits that are not stored; the pages of a checkpoint that are not known to be sound; the
                            whole log if an examination is due
    an idle tick            after something changed, and once an hour: the pages of a checkpoint that it sees first; the
                            whole log if an examination is due. Both in a thread, while other ticks go on
    a tick of a broken      commits that are not stored; the whole log if an examination is due. After a pause of 1 to
    table                   10 minutes
    a tick after a run      the whole log, once for each failed run
    failed
    the schedule and        see `examination_without_run`
    `refresh`, without
    new commits
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum

from deltasnap_assets.checks.facts import CountedFiles
from deltasnap_assets.quantities import DAY_MS, HOUR_MS
from deltasnap_assets.runs.condition.poll_findings import ALL_CHECKS, LOG, RUN
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.settings.config import TableSettings
from deltasnap_core import LogStatus, Problem, TableCondition, VersionRanges
from deltasnap_core.support import LastPoll

EXAMINED_AGAIN_MS = DAY_MS
RECORDED_AGAIN_MS = HOUR_MS
"""An unchanged poll is recorded again after this time."""
SHORT_LOG = 100
"""A log of at most this many commits is read in a fraction of a second, on S3 too."""


class Examination(Enum):
    """What an examination reads. NEW_CHECKPOINT: only what a new checkpoint may change."""

    WHOLE_LOG = "whole log"
    NEW_CHECKPOINT = "new checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReads:
    """The files of a log to read for faults.

    first: the first version to check; None: the latest. sound: the versions whose commits are not read.
    read_pages: whether to read the pages of the newest checkpoint.
    """

    first: int | None = None
    sound: VersionRanges = field(default_factory=VersionRanges)
    read_pages: bool = True


WHOLE_LOG = LogReads(first=0)


def is_examination_due(poll: LastPoll | None, now_ms: int) -> bool:
    """Return whether to read the whole log of a table for faults: once a day, and while it has any (warnings: hourly).

    Polls do not detect faults, and runs read only new commits. So neither shows that a fault is gone.
    poll: the recorded one; None: there is none.
    """
    if poll is None or poll.examined_at_ms is None:
        return True
    faults = {problem.severity for problem in poll.problems if problem.check == LOG}
    patience = 0 if "error" in faults else HOUR_MS if faults else EXAMINED_AGAIN_MS
    return abs(now_ms - poll.examined_at_ms) >= patience


def has_new_checkpoint(poll: LastPoll | None, checkpoint: str | None) -> bool:
    """Return whether a checkpoint was never read for faults. checkpoint: `newest_checkpoint`; None: there is none."""
    return checkpoint is not None and (poll is None or poll.examined_checkpoint != checkpoint)


def is_checkpoint_sound(poll: LastPoll | None, checkpoint: str | None) -> bool:
    """Return whether every page of a checkpoint was read without a fault, so that it need not be read again."""
    if checkpoint is None or poll is None or poll.examined_checkpoint != checkpoint:
        return False
    # Damage may leave the size and time of a file unchanged.
    return not any(problem.kind is not None and problem.kind.is_of_checkpoint for problem in poll.problems)


def reads_of_tick(poll: LastPoll | None, now_ms: int, stored: Stored) -> LogReads:
    """Return what to read before versions of a table that may be broken are requested.

    Commits before the first stored one are read only if the whole log is to be read: they may have been pruned.
    """
    first = 0 if is_examination_due(poll, now_ms) else stored.first_unread
    return LogReads(first=first, sound=stored.sound, read_pages=False)


def reads_of_checkpoint(poll: LastPoll | None, stored: Stored, checkpoint: str | None) -> LogReads:
    """Return what to read after a checkpoint was written: no commit of a stored version."""
    return LogReads(first=stored.first_unread, sound=stored.sound, read_pages=has_new_checkpoint(poll, checkpoint))


def reads_of_run(
    poll: LastPoll | None, now_ms: int, stored: Stored, checkpoint: str | None, *, is_comparable: bool
) -> LogReads:
    """Return what a run reads.

    stored: before the run. is_comparable: whether it stored the version of the checkpoint.
    """
    if is_examination_due(poll, now_ms):
        return WHOLE_LOG
    read_pages = is_comparable or not is_checkpoint_sound(poll, checkpoint)
    return LogReads(first=stored.first_unread, sound=stored.sound, read_pages=read_pages)


def examination_without_run(
    poll: LastPoll | None,
    now_ms: int,
    status: LogStatus,
    stored: Stored,
    *,
    is_suspect: bool,
    is_requested: bool,
) -> Examination | None:
    """Return what to read after a poll that requests no run; None: nothing.

    The whole log is read if an examination is due, if the poll found faults or that the log lost versions, or if the
    table is suspect. Otherwise a new checkpoint is read: writers write it after the commit.
    is_suspect: whether the last run of the table failed, or Dagster shows the table as broken.
    is_requested: a user waits for the answer: then a short log is always read.
    """
    is_damaged = status.condition is not None and bool(status.condition.faults)
    is_short = status.listing is not None and len(status.listing.commits) <= SHORT_LOG
    is_whole = is_suspect or is_damaged or bool(stored.common.lost) or (is_requested and is_short)
    if is_whole or is_examination_due(poll, now_ms):
        return Examination.WHOLE_LOG
    checkpoint = None if status.listing is None else status.listing.newest_checkpoint
    return Examination.NEW_CHECKPOINT if has_new_checkpoint(poll, checkpoint) else None


def are_checks_due(
    poll: LastPoll | None,
    table: TableSettings,
    newest: int,
    latest: int,
    checkpoint: str | None,
    *,
    has_failed: bool,
    is_requested: bool,
) -> bool:
    """Return whether the checks are evaluated again although nothing is new.

    They are due
    - if there are no results of the newest version or a later one of the log: they were lost, damaged or not written,
      or they are those of a version that a rollback removed
    - after a change of the settings, and after a checkpoint, which may end a warning
    - if they used facts about the files of an earlier version, which may be counted again now: see `is_count_due`
    - after a failed run, unless a check found an error, which may have failed it
    newest: the newest materialized version. latest: that of the log. checkpoint: `LogListing.newest_checkpoint`.
    has_failed: whether the last run failed after all its versions were materialized: nothing else ends its warning.
    is_requested: a user waits for the answer. Then they are also due if a check found an error, which may be over.
    """
    if poll is None or poll.checked_version is None or not newest <= poll.checked_version <= latest:
        return True
    if poll.checked_inputs not in (None, inputs_of_checks(table, checkpoint)):
        return True
    if has_old_facts(poll, newest):
        return True
    errors = {problem.check for problem in poll.problems if problem.severity == "error"} - {LOG}
    if is_requested:
        return has_failed or bool(errors)
    return (has_failed or ALL_CHECKS in errors) and errors <= {RUN, ALL_CHECKS}


def has_old_facts(poll: LastPoll, newest: int) -> bool:
    """Return whether the recorded facts about files are of an earlier version, and an hour old."""
    known = CountedFiles.from_json(poll.counted_files)
    return known is not None and known.version < newest and abs(poll.polled_at_ms - known.counted_at_ms) >= HOUR_MS


def has_old_checks(poll: LastPoll | None, table: TableSettings) -> bool:
    """Return whether the checks were last evaluated with other settings. A new checkpoint does not count."""
    inputs = None if poll is None else poll.checked_inputs
    return inputs is not None and not inputs.startswith(digest_of_settings(table))


def inputs_of_checks(table: TableSettings, checkpoint: str | None) -> str:
    """Return digests of the inputs of a version's checks that no commit changes: settings, then checkpoint."""
    return digest_of_settings(table) + _digest(str(checkpoint))


def digest_of_settings(table: TableSettings) -> str:
    """Return a digest of the settings of the checks of a table."""
    return _digest(table.checks.model_dump_json())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_failure_over(condition: TableCondition, failed: Problem) -> bool:
    """Return whether the log was read without an error, and ends before the versions that a run did not materialize."""
    missing = failed.where.versions
    if not missing or condition.latest is None or not condition.is_complete:
        return False
    return condition.mark != "error" and condition.latest < missing[0]
