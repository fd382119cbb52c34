"""The condition of a table in one word, with the reason: decided from its last poll and the current time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltasnap_core.log.condition.problem import Problem, Where
from deltasnap_core.log.condition.problem_kinds import ProblemKind, Severity
from deltasnap_core.redaction import safe_repr
from deltasnap_core.store.fleet.last_poll import LastPoll

MAX_POLL_AGE_MS = 24 * 60 * 60 * 1000
"""An older poll does not show the current condition."""
MAX_EXAMINATION_AGE_MS = 48 * 60 * 60 * 1000
"""The same for an examination of the log, which is due every day."""
CLOCK_SKEW_MS = 5 * 60 * 1000
"""By how much the clocks of two machines may differ."""

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


_LEVELS: Mapping[Severity, TableLevel] = {
    "error": TableLevel.BROKEN,
    "unknown": TableLevel.UNKNOWN,
    "warning": TableLevel.WARNED,
    "stale": TableLevel.STALE,
}


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """The condition of a table. problems: the reasons; empty: the table is healthy."""

    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, *problems: Problem) -> TableStatus:
        """Return the condition with these problems."""
        return cls(problems=problems)

    @property
    def level(self) -> TableLevel:
        """That of the worst problem."""
        levels = [_LEVELS[problem.severity] for problem in self.problems]
        return min(levels, key=lambda level: level.rank, default=TableLevel.HEALTHY)

    @property
    def reason(self) -> str:
        """The texts of the problems, each once."""
        return " ".join(dict.fromkeys(problem.text for problem in self.problems))

    @property
    def checks(self) -> tuple[str, ...]:
        """What found the problems, see `Problem.check`, each once."""
        return tuple(dict.fromkeys(problem.check for problem in self.problems if problem.check))

    @property
    def advice(self) -> str:
        """What to do, each sentence once; empty: nothing."""
        return " ".join(dict.fromkeys(problem.advice for problem in self.problems if problem.advice))


def is_new(poll: LastPoll | None, now_ms: int) -> bool:
    """Return whether the table still awaits its first check: it was never polled, or was first polled within a day."""
    if poll is None:
        return True
    is_unchecked = poll.checked_version is None and not poll.problems
    return is_unchecked and not _outdated(poll, now_ms) and _unchecked_ms(poll, now_ms) <= MAX_POLL_AGE_MS


def table_status(poll: LastPoll | None, last_commit_ms: int | None, now_ms: int) -> TableStatus:
    """Return the condition of a table.

    Errors hide warnings, and that the poll is old hides them too: they may be over. That a table has not been checked
    for long does not.
    poll: the last one; None: never. last_commit_ms: of the latest commit; None: unknown, the table is not stale then.
    """
    if poll is None:
        return TableStatus.of(Problem.of(ProblemKind.NEVER_POLLED))
    outdated = _outdated(poll, now_ms)
    if errors := [problem for problem in poll.problems if problem.severity == "error"]:
        return TableStatus.of(*errors, *outdated)
    if outdated:
        return TableStatus.of(*outdated)
    if (waiting := _unchecked_ms(poll, now_ms)) > MAX_POLL_AGE_MS:
        unchecked = Problem.of(ProblemKind.UNCHECKED_VERSIONS, age=_age_text(waiting))
        return TableStatus.of(unchecked, *poll.problems)
    if poll.checked_version is None and not poll.problems:
        return TableStatus.of(Problem.of(ProblemKind.NEVER_CHECKED))
    return TableStatus.of(*problems_now(poll, last_commit_ms, now_ms))


def problems_now(poll: LastPoll, last_commit_ms: int | None, now_ms: int) -> tuple[Problem, ...]:
    """Return the problems of a table: the recorded ones, and that its last commit is too old or in the future."""
    if poll.stale_after_ms is None or last_commit_ms is None:
        return poll.problems
    age_ms, patience = now_ms - last_commit_ms, _age_text(poll.stale_after_ms)
    if age_ms < -CLOCK_SKEW_MS:
        return (*poll.problems, Problem.of(ProblemKind.FUTURE_COMMIT, age=_age_text(-age_ms)))
    if age_ms <= poll.stale_after_ms:
        return poll.problems
    return (*poll.problems, Problem.of(ProblemKind.STALE, age=_age_text(age_ms), patience=patience))


def of_another_table(poll: LastPoll) -> Problem:
    """Return the problem of a table if the store has another one of the same name, whose poll this is."""
    return Problem.of(ProblemKind.OTHER_TABLE, Where.of(poll.path))


def _outdated(poll: LastPoll, now_ms: int) -> tuple[Problem, ...]:
    """Return why a poll is outdated; empty: it is not."""
    age = now_ms - poll.polled_at_ms
    if age > MAX_POLL_AGE_MS:
        return (Problem.of(ProblemKind.OLD_POLL, age=_age_text(age)),)
    if age < -CLOCK_SKEW_MS:
        return (Problem.of(ProblemKind.FUTURE_POLL, age=_age_text(-age)),)
    if poll.examined_at_ms is not None and now_ms - poll.examined_at_ms > MAX_EXAMINATION_AGE_MS:
        return (Problem.of(ProblemKind.OLD_EXAMINATION, age=_age_text(now_ms - poll.examined_at_ms)),)
    return ()


def _unchecked_ms(poll: LastPoll, now_ms: int) -> int:
    """Return for how long new versions have waited for a check."""
    return 0 if poll.unchecked_since_ms is None else now_ms - poll.unchecked_since_ms


def _age_text(span_ms: int) -> str:
    unit_ms, unit = next(((size, unit) for least, size, unit in _UNITS if span_ms >= least), (1000, "second"))
    return f"{span_ms // unit_ms:,} {unit}{'' if span_ms // unit_ms == 1 else 's'}"
