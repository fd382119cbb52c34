"""The check `fresh_table`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from deltasnap_assets.checks.check import Limits, TableCheck, Verdict, not_evaluated
from deltasnap_assets.quantities import DAY_MS, HOUR_MS, span_text
from deltasnap_core import ProblemKind
from deltasnap_core.support import CLOCK_SKEW_MS, TEMPLATES

if TYPE_CHECKING:
    from deltasnap_assets.checks.facts import TableFacts
    from deltasnap_core import DeltaHistoryManager

_MAX_HOURS = 1_000_000  # a century
# Without `fresh_within_hours`, a table is stale after this many times its longest recent pause, but not within a day.
_PAUSES = 3
_LEAST_PATIENCE_MS = DAY_MS
_MAX_COMMITS = 30


class FreshTableLimits(Limits):
    """The limit on the time since the last commit."""

    fresh_within_hours: float | None = Field(default=None, gt=0, le=_MAX_HOURS)
    """The maximum age of the last commit. `null`: three times the longest recent pause, at least a day."""


class FreshTable(TableCheck[FreshTableLimits]):
    """The last commit is recent enough."""

    name = "fresh_table"
    asset = "delta_log"
    expects = "The last commit is recent."
    advice = TEMPLATES[ProblemKind.STALE].advice

    def verdict(self, facts: TableFacts, limits: FreshTableLimits) -> Verdict:
        return self.of_commits(facts.commit_times_ms, limits, now_ms=facts.now_ms)

    def of_commits(self, commit_times_ms: Sequence[int], limits: FreshTableLimits, *, now_ms: int) -> Verdict:
        """Return the verdict. commit_times_ms: of the last commits, in any order."""
        times = sorted(commit_times_ms)
        if not times:
            return not_evaluated("the log has no commit, so the time of the last commit is unknown.")
        if times[-1] > now_ms + CLOCK_SKEW_MS:
            return Verdict(
                passed=False,
                description=f"The time of the last commit is {span_text(times[-1] - now_ms)} in the future.",
                advice="Correct the clock of the writer. Until then, the age of the table is unknown.",
            )
        age, pauses = max(now_ms - times[-1], 0), [later - earlier for earlier, later in pairwise(times)]
        if limits.fresh_within_hours is not None:
            patience, why = int(limits.fresh_within_hours * HOUR_MS), "as configured"
        else:
            patience = min(max(_PAUSES * max(pauses, default=0), _LEAST_PATIENCE_MS), _MAX_HOURS * HOUR_MS)
            why = "three times the longest recent pause, at least a day"
        return Verdict(
            passed=age <= patience,
            description=f"The last commit is {span_text(age)} old, at most {span_text(patience)} expected ({why}).",
            numbers={"hours_since_last_commit": round(age / HOUR_MS, 2), "hours_expected": patience / HOUR_MS},
        )


def recent_commit_times(history: DeltaHistoryManager, most: int = _MAX_COMMITS) -> list[int]:
    """Return the times of the last commits of a table (ms since the epoch), ascending."""
    return list(history.commit_timestamps(start=max(history.latest_version() - most + 1, 0)).values())
