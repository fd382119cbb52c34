"""Parses durations in table properties: `interval 1 week`, `7 days 12 hours`, `interval 1.5 seconds`."""

from __future__ import annotations

import re
from fractions import Fraction

_SECOND_MS = 1000
_UNIT_MS: dict[str, Fraction] = {
    "week": Fraction(7 * 24 * 3600 * _SECOND_MS),
    "day": Fraction(24 * 3600 * _SECOND_MS),
    "hour": Fraction(3600 * _SECOND_MS),
    "minute": Fraction(60 * _SECOND_MS),
    "second": Fraction(_SECOND_MS),
    "millisecond": Fraction(1),
    "microsecond": Fraction(1, 1000),
    "nanosecond": Fraction(1, 1_000_000),
}
_DAY_MS = 24 * 3600 * _SECOND_MS
_TERM = re.compile(r"(?P<sign>[+-]?)\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s+(?P<unit>[a-z]+)(?:\s+|$)", re.ASCII)


def parse_interval_ms(text: str) -> int:
    """Return an interval in Spark's notation in milliseconds, rounded down: numbers, units, optionally `interval`.

    Units are weeks to microseconds, singular or plural, and nanoseconds, which delta-rs allows. Only seconds may have a
    fraction.
    Errors: ValueError for anything else: no number, months and years (their length varies), a negative sum, or more
    than Spark's intervals hold: days in 32 bits, and microseconds in 64 bits.
    Source: Delta's `DeltaConfigs.parseCalendarInterval`, `isValidIntervalConfigValue`.
    """
    rest = text.strip().lower()
    if re.match(r"interval\s", rest):
        rest = rest.removeprefix("interval").lstrip()
    days = time = Fraction(0)
    position = 0
    while match := _TERM.match(rest, position):
        milliseconds = _term_ms(text, match)
        if match["unit"].startswith(("week", "day")):
            days += milliseconds / _DAY_MS
        else:
            time += milliseconds
        position = match.end()
    if position == 0 or position != len(rest):
        raise ValueError(f"expected an interval such as '2 weeks', found {text!r}")
    if not (-(2**31) <= days < 2**31 and -(2**63) <= time * 1000 < 2**63):
        raise ValueError(f"expected an interval of less than 2^31 days, found {text!r}")
    total = days * _DAY_MS + time
    if total < 0:
        raise ValueError(f"expected an interval that is not negative, found {text!r}")
    return int(total)


def _term_ms(text: str, match: re.Match[str]) -> Fraction:
    number, unit = match["number"], match["unit"].removesuffix("s")
    if unit not in _UNIT_MS:
        raise ValueError(f"expected units from weeks to nanoseconds in an interval, found {match['unit']} in {text!r}")
    if "." in number and unit != "second":
        raise ValueError(f"only seconds may have a fraction in an interval, found {text!r}")
    milliseconds = Fraction(number) * _UNIT_MS[unit]
    return -milliseconds if match["sign"] == "-" else milliseconds
