"""Judges of the checks of columns. A column whose statistics do not suffice is not judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from deltasnap_assets.checks.check import Verdict, not_evaluated, nothing_to_compare
from deltasnap_assets.quantities import counted, percents
from deltasnap_assets.texts import visible

if TYPE_CHECKING:
    from deltasnap_assets.checks.check_settings import CheckSettings, RangeLimit
    from deltasnap_assets.checks.facts import TableFacts
    from deltasnap_core.support import ColumnTrend, Extreme

EVERY_OTHER = "*"
_DATED = ("date", "timestamp", "timestamp_ntz")
_MAX_SHOWN = 10


@dataclass(slots=True, kw_only=True)
class _Findings:
    """The results of columns. named: columns that must be judged. unknown: why a column was not judged, by column."""

    named: frozenset[str]
    judged: int = 0
    failed: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def verdict(self, version: int, passed: str) -> Verdict:
        """Return the verdict. passed: what the columns are if none failed."""
        numbers = {
            "columns_checked": self.judged,
            "columns_failed": len(self.failed),
            "columns_not_checked": len(self.unknown),
        }
        unknown = [f"{visible(name)} ({reason})" for name, reason in self.unknown.items()]
        if self.failed:
            return Verdict(passed=False, description=f"At version {version}, {_some(self.failed)}.", numbers=numbers)
        if unknown and (not self.judged or self.named & self.unknown.keys()):
            return not_evaluated(f"the log does not suffice for {_some(unknown)}.")
        if not self.judged:
            return nothing_to_compare("the table has no such column.")
        note = f" Not checked: {_some(unknown)}." if unknown else ""
        who = f"{counted(self.judged, 'column')} {'has' if self.judged == 1 else 'have'}"
        return Verdict(passed=True, description=f"At version {version}, {who} {passed}.{note}", numbers=numbers)


def null_share(facts: TableFacts, settings: CheckSettings) -> Verdict:
    """The share of nulls in each column is within its limit, in all rows and in those of the last day.

    In a large table, the rows that one job wrote hardly change the share in all rows.
    """
    limits = dict(settings.max_null_share)
    others = limits.pop(EVERY_OTHER, None)
    found = _Findings(named=frozenset(limits))
    for trend in _selected(facts.columns, limits if others is None else None, found):
        limit = limits.get(trend.column, others)
        if trend.no_nulls or limit is None:
            found.unknown[trend.column] = trend.no_nulls
            continue
        found.judged += 1
        shares = {"": trend.null_share, " written in the last 24 hours": trend.new_null_share}
        for which, share in shares.items():
            if share is not None and share > limit:
                shown, most = percents(share, limit)
                text = f"{shown} of the values of {visible(trend.column)}{which} are null, at most {most} expected"
                found.failed.append(text)
                break
    return found.verdict(facts.columns_version, "a share of nulls within the limits")


def max_not_in_future(facts: TableFacts, settings: CheckSettings) -> Verdict:
    """No date or time of the rows is in the future."""
    names = settings.dated_columns
    found = _Findings(named=frozenset(names or ()))
    now = datetime.fromtimestamp(facts.now_ms / 1000, UTC)
    last = now + timedelta(hours=settings.max_hours_in_future)
    for trend in _selected(facts.columns, names, found):
        if trend.data_type not in _DATED:
            if names is not None:
                found.unknown[trend.column] = f"it is of the type {trend.data_type}"
            continue
        if trend.greatest is None and trend.no_extremes:
            found.unknown[trend.column] = trend.no_extremes
            continue
        found.judged += 1
        if trend.greatest is not None and _time_of(trend.greatest) > last:
            found.failed.append(f"the greatest value of {visible(trend.column)} is in the future: {trend.greatest}")
    return found.verdict(facts.columns_version, "no value in the future")


def columns_within(facts: TableFacts, settings: CheckSettings) -> Verdict:
    """The values of columns are within the expected ranges."""
    ranges = settings.column_ranges
    if not ranges:
        return nothing_to_compare("`column_ranges` names no column.")
    found = _Findings(named=frozenset(ranges))
    for trend in _selected(facts.columns, ranges, found):
        try:
            low, high = (None if limit is None else _limit(limit, trend) for limit in ranges[trend.column])
        except (ValueError, ArithmeticError):
            found.unknown[trend.column] = f"a limit is not of its type, {trend.data_type}"
            continue
        least, greatest = (None if each is None else _comparable(each) for each in (trend.least, trend.greatest))
        is_below = low is not None and least is not None and least < low
        is_above = high is not None and greatest is not None and greatest > high
        if is_below or is_above:
            value = trend.least if is_below else trend.greatest
            found.failed.append(f"{visible(trend.column)} has the value {visible(str(value))}, outside of its range")
        elif trend.no_extremes and ((low is not None and least is None) or (high is not None and greatest is None)):
            found.unknown[trend.column] = trend.no_extremes
            continue
        found.judged += 1
    return found.verdict(facts.columns_version, "only values within the ranges")


def _selected(trends: Sequence[ColumnTrend], names: Iterable[str] | None, found: _Findings) -> list[ColumnTrend]:
    """Return the trends of columns. names: None: all. Names of no column are unknown."""
    by_name = {trend.column: trend for trend in trends}
    named = found.named if names is None else names
    found.unknown |= {name: "the table has no such column" for name in named if name not in by_name}
    return [trend for trend in trends if names is None or trend.column in names]


def _limit(limit: RangeLimit, trend: ColumnTrend) -> Any:
    """Return a limit as a value to compare with the values of a column. Errors: ValueError, ArithmeticError."""
    if trend.data_type in _DATED:
        return _time_of(datetime.fromisoformat(str(limit)))
    if trend.data_type == "string":
        return str(limit)
    number = Decimal(str(limit))
    if number.is_nan():
        raise ValueError("NaN has no order")
    return number


def _comparable(value: Extreme) -> Any:
    if isinstance(value, date):
        return _time_of(value)
    return value if isinstance(value, str) else Decimal(str(value))


def _time_of(value: Any) -> datetime:
    """Return a date or time in UTC. A date begins at midnight."""
    time = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _MAX_SHOWN
    return "; ".join(texts[:_MAX_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
