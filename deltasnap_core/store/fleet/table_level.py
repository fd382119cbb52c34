"""The condition of a table in one word, with the reason: decided from its last poll and the current time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from deltasnap_core.redaction import safe_repr
from deltasnap_core.store.fleet.last_poll import LastPoll, TableProblem

MAX_POLL_AGE_MS = 24 * 60 * 60 * 1000
"""An older poll does not show the current condition."""
MAX_EXAMINATION_AGE_MS = 48 * 60 * 60 * 1000
"""The same for an examination of the log, which is due every day."""
CLOCK_SKEW_MS = 5 * 60 * 1000
"""By how much the clocks of two machines may differ."""
OTHER_PATH = "path"
"""The `check` of a status: the store has another table of the same name."""

_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_UNITS = ((7 * _DAY_MS, _DAY_MS, "day"), (2 * _HOUR_MS, _HOUR_MS, "hour"), (2 * _MINUTE_MS, _MINUTE_MS, "minute"))
"""From which span on a unit is fine enough to show by how much an age exceeds the limit."""


class TableLevel(StrEnum):
    """The condition of a table, the worst first."""

    BROKEN = "broken"
    """A version cannot be read, or a check failed with an error."""
    UNKNOWN = "unknown"
    """No run checked the table or its new versions, or the last poll of its log is too old."""
    WARNED = "warned"
    """A check failed with a warning, or the last run failed."""
    STALE = "stale"
    """The last commit is older than expected, and there is no other problem."""
    HEALTHY = "healthy"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(TableLevel).index(self)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """A level with its reason.

    reason: in sentences, also about a last commit that is too old; empty only if the table is healthy.
    check: the checks that found it, separated by ", "; None: no check. advice: what to do; empty: nothing.
    """

    level: TableLevel
    reason: str = ""
    check: str | None = None
    advice: str = ""


def is_new(poll: LastPoll | None, now_ms: int) -> bool:
    """Return whether the table still awaits its first check: it was never polled, or was first polled within a day."""
    if poll is None:
        return True
    is_unchecked = poll.checked_version is None and not poll.problems
    return is_unchecked and not _why_outdated(poll, now_ms) and _unchecked_ms(poll, now_ms) <= MAX_POLL_AGE_MS


def table_status(poll: LastPoll | None, last_commit_ms: int | None, now_ms: int) -> TableStatus:
    """Return the condition of a table.

    poll: the last one; None: never. last_commit_ms: of the latest commit; None: unknown, the table is not stale then.
    """
    if poll is None:
        return TableStatus(
            level=TableLevel.UNKNOWN,
            reason="deltasnap has not read the log of this table yet.",
            advice="Refresh the table, or start its sensor.",
        )
    since = _why_outdated(poll, now_ms)
    if errors := [problem for problem in poll.problems if problem.severity == "error"]:
        found = _of_problems(TableLevel.BROKEN, errors)
        return replace(found, reason=f"{found.reason} {since}".rstrip())
    if since:
        return TableStatus(level=TableLevel.UNKNOWN, reason=since, advice="Refresh the table, or start its sensor.")
    if (waiting := _unchecked_ms(poll, now_ms)) > MAX_POLL_AGE_MS:  # a warning must not hide it
        reason = f"No run has checked this table for {_age_text(waiting)}, and it has new versions."
        warned = _of_problems(TableLevel.WARNED, poll.problems)
        return TableStatus(
            level=TableLevel.UNKNOWN,
            reason=f"{reason} {warned.reason}".rstrip(),
            check=warned.check,
            advice=f"Refresh the table. {warned.advice}".rstrip(),
        )
    late = _freshness(poll, last_commit_ms, now_ms)
    if poll.problems:
        return _of_problems(TableLevel.WARNED, problems_now(poll, last_commit_ms, now_ms))
    if poll.checked_version is None:
        return TableStatus(
            level=TableLevel.UNKNOWN, reason="No run has checked this table yet.", advice="Refresh the table."
        )
    return TableStatus(level=TableLevel.HEALTHY) if late is None else _of_problems(late[0], late[1:])


def problems_now(poll: LastPoll, last_commit_ms: int | None, now_ms: int) -> tuple[TableProblem, ...]:
    """Return the problems of a table: the recorded ones, and that its last commit is too old or in the future."""
    late = _freshness(poll, last_commit_ms, now_ms)
    return poll.problems if late is None else (*poll.problems, late[1])


def of_another_table(poll: LastPoll) -> TableStatus:
    """Return the condition of a table if the store has another one of the same name, whose poll this is."""
    return TableStatus(
        level=TableLevel.UNKNOWN,
        reason=f"The store has another table of this name, at {poll.path}.",
        check=OTHER_PATH,
        advice="Refresh the table. If that fails, give one of the two tables another name or another store.",
    )


def _why_outdated(poll: LastPoll, now_ms: int) -> str:
    """Return why a poll is outdated; empty: it is not."""
    age = now_ms - poll.polled_at_ms
    if age > MAX_POLL_AGE_MS:
        return f"deltasnap last read the log of this table {_age_text(age)} ago."
    if age < -CLOCK_SKEW_MS:
        return f"The time of the last poll of this table is {_age_text(-age)} in the future: a clock was wrong."
    if poll.examined_at_ms is not None and now_ms - poll.examined_at_ms > MAX_EXAMINATION_AGE_MS:
        return f"deltasnap last checked the log of this table for damage {_age_text(now_ms - poll.examined_at_ms)} ago."
    return ""


def _unchecked_ms(poll: LastPoll, now_ms: int) -> int:
    """Return for how long new versions have waited for a check."""
    return 0 if poll.unchecked_since_ms is None else now_ms - poll.unchecked_since_ms


def _of_problems(level: TableLevel, problems: Sequence[TableProblem]) -> TableStatus:
    return TableStatus(
        level=level,
        reason=" ".join(dict.fromkeys(problem.text for problem in problems)),
        check=", ".join(dict.fromkeys(problem.check for problem in problems)) or None,
        advice=" ".join(dict.fromkeys(problem.advice for problem in problems if problem.advice)),
    )


def _freshness(poll: LastPoll, last_commit_ms: int | None, now_ms: int) -> tuple[TableLevel, TableProblem] | None:
    """Return the problem that the last commit is too old or in the future, and its level; None: it is not."""
    rule = poll.stale_rule
    if rule is None or last_commit_ms is None:
        return None
    age_ms = now_ms - last_commit_ms
    if age_ms < -CLOCK_SKEW_MS:
        level, advice = TableLevel.WARNED, "Correct the clock of the writer."
        text = f"The time of the last commit is {_age_text(-age_ms)} in the future."
    elif age_ms > rule.patience_ms:
        level, advice = TableLevel.STALE, rule.advice
        text = f"The last commit is {_age_text(age_ms)} old, at most {_age_text(rule.patience_ms)} expected."
    else:
        return None
    return level, TableProblem(check=rule.check, severity="warning", text=text, advice=advice)


def _age_text(span_ms: int) -> str:
    unit_ms, unit = next(((size, unit) for least, size, unit in _UNITS if span_ms >= least), (1000, "second"))
    return f"{span_ms // unit_ms:,} {unit}{'' if span_ms // unit_ms == 1 else 's'}"
