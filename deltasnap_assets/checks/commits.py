"""Judges of the checks of commits and versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from deltasnap_assets.checks.check import Verdict, not_evaluated
from deltasnap_assets.checks.check_settings import MAX_HOURS
from deltasnap_assets.quantities import DAY_MS, HOUR_MS, bytes_text, counted, span_text
from deltasnap_assets.texts import visible
from deltasnap_core.support import CLOCK_SKEW_MS

if TYPE_CHECKING:
    from deltasnap_assets.checks.check_settings import CheckSettings
    from deltasnap_assets.checks.facts import TableFacts
    from deltasnap_core import DeltaHistoryManager
    from deltasnap_core.support import DailyRows

# Without `fresh_within_hours`, a table is stale after this many times its longest recent pause, but not within a day.
_PAUSES = 3
_LEAST_PATIENCE_MS = DAY_MS
_MAX_COMMITS = 30
_WEEKS = (7, 14, 21, 28)  # days before now
_LEAST_DAYS = 3  # the usual number of rows is the median of as many days
_LEAST_HISTORY = 5  # a version after fewer changes of the size has no verdict


def fresh_table(facts: TableFacts, settings: CheckSettings) -> Verdict:
    """The last commit is recent enough."""
    return freshness(facts.commit_times_ms, settings, now_ms=facts.now_ms)


def freshness(commit_times_ms: Sequence[int], settings: CheckSettings, *, now_ms: int) -> Verdict:
    """Return the verdict of `fresh_table`. commit_times_ms: of the last commits, in any order."""
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
    if settings.fresh_within_hours is not None:
        patience, why = int(settings.fresh_within_hours * HOUR_MS), "as configured"
    else:
        patience = min(max(_PAUSES * max(pauses, default=0), _LEAST_PATIENCE_MS), MAX_HOURS * HOUR_MS)
        why = "three times the longest recent pause, at least a day"
    return Verdict(
        passed=age <= patience,
        description=f"The last commit is {span_text(age)} old, at most {span_text(patience)} expected ({why}).",
        numbers={"hours_since_last_commit": round(age / HOUR_MS, 2), "hours_expected": patience / HOUR_MS},
    )


def recent_commit_times(history: DeltaHistoryManager, most: int = _MAX_COMMITS) -> list[int]:
    """Return the times of the last commits of a table (ms since the epoch), ascending."""
    return list(history.commit_timestamps(start=max(history.latest_version() - most + 1, 0)).values())


def rows_expected(facts: TableFacts, settings: CheckSettings) -> Verdict:
    """The rows that commits added in the last 24 hours are about as many as usual."""
    return rows_verdict(facts.daily_rows, settings)


def rows_verdict(daily: DailyRows, settings: CheckSettings) -> Verdict:
    """Return the verdict of `rows_expected`.

    Usual is the median of the same 24 hours one to four weeks ago if the log has at least three of these weeks,
    otherwise that of the three to seven days before.
    """
    days = [day for day in _WEEKS if day < daily.whole_days]
    if len(days) < _LEAST_DAYS:
        days = [*range(1, min(7, daily.whole_days - 1) + 1)]
    if len(days) < _LEAST_DAYS:
        return not_evaluated(
            f"the log has commits of {counted(daily.whole_days, 'day')}, too few to know what is usual."
        )
    added, *earlier = (daily.of(day) for day in (0, *days))
    known = [rows for rows in earlier if rows is not None]
    if added is None or len(known) < len(earlier):
        return not_evaluated("some added files do not state their number of rows.")
    usual = median(known)
    what = "the same hours of the weeks before" if days[0] == _WEEKS[0] else "the days before"
    least, most = usual * settings.min_rows_ratio, usual * settings.max_rows_ratio
    expected = f"{least:,.0f} to {most:,.0f}" if usual else "any number"
    return Verdict(
        passed=not usual or least <= added <= most,
        description=(
            f"Commits added {counted(added, 'row')} in the last 24 hours, {expected} expected: the median of "
            f"{len(days)} of {what} is {usual:,.0f}."
        ),
        numbers={"rows_added": added, "rows_usual": usual},
    )


def schema_unchanged(facts: TableFacts, _: CheckSettings) -> dict[int, Verdict]:
    """The schema is the same as in the stored version before. The first stored version has no verdict."""
    verdicts = {}
    for version, changes in facts.schema_changes.items():
        texts = "; ".join(visible(change) for change in changes)
        before = max((each for each in facts.states if each < version), default=version - 1)
        who = f"Version {version}" if before == version - 1 else f"A version after {before}, up to {version},"
        text = f"{who} changed the schema: {texts}." if changes else "The schema did not change."
        numbers = {"schema_changes": len(changes)}
        verdicts[version] = Verdict(passed=not changes, description=text, numbers=numbers)
    return verdicts


def steady_growth(facts: TableFacts, settings: CheckSettings) -> dict[int, Verdict]:
    """The size does not change far more than in recent versions."""
    sizes = {version: state.size_in_bytes for version, state in sorted(facts.states.items())}
    steps = {version: size - sizes[version - 1] for version, size in sizes.items() if version - 1 in sizes}
    verdicts = {}
    for version in facts.versions:
        earlier = [abs(step) for number, step in steps.items() if number < version and step]
        if version not in steps or len(earlier) < _LEAST_HISTORY:
            continue
        step, most = steps[version], max(earlier) * settings.max_growth_factor
        word = "made the table grow" if step >= 0 else "made the table shrink"
        verdicts[version] = Verdict(
            passed=abs(step) <= most,
            description=(
                f"Version {version} {word} by {bytes_text(abs(step))}. The largest of the {len(earlier)} changes "
                f"before it was {bytes_text(max(earlier))}, at most {settings.max_growth_factor:g} times that is "
                "expected."
            ),
            numbers={"growth_bytes": step},
        )
    return verdicts
