"""Decides when a log is read for faults.

Functions over values: what was recorded, and the time. The sensor, the schedule, `refresh` and runs all decide here.
A poll only lists the log. These read it for faults:

    a run                   commits that are not stored; the pages of a checkpoint that are not known to be sound; the
                            whole log if an examination is due
    an idle tick            once an hour: the whole log if an examination is due
    a tick of a broken      commits that are not stored; the whole log if an examination is due. After a pause of a
    table                   minute
    a tick after a run      the whole log, once for each failed run
    failed
    the schedule, and       the whole log if an examination is due, or if something may be wrong: see `decide`
    `refresh` without
    new commits
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from deltasnap_assets.quantities import DAY_MS, HOUR_MS
from deltasnap_assets.runs.condition.poll_findings import LOG
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import Problem, TableCondition, VersionRanges
from deltasnap_core.support import LastPoll

EXAMINED_AGAIN_MS = DAY_MS
RECORDED_AGAIN_MS = HOUR_MS
"""An unchanged poll is recorded again after this time."""
SHORT_LOG = 100
"""A log of at most this many commits is read in a fraction of a second, on S3 too."""


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


def inputs_of_checks(table: TableSettings, checkpoint: str | None) -> str:
    """Return digests of the inputs of a version's checks that no commit changes: settings, then checkpoint."""
    return _digest(table.checks.model_dump_json()) + _digest(str(checkpoint))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_failure_over(condition: TableCondition, failed: Problem) -> bool:
    """Return whether the log was read without an error, and ends before the versions that a run did not materialize."""
    missing = failed.where.versions
    if not missing or condition.latest is None or not condition.is_complete:
        return False
    return condition.mark != "error" and condition.latest < missing[0]
