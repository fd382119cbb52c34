"""Random predicates over the columns of a table: useful ones, odd ones, and invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from tests.fuzz.scans.columns import KINDS, Kind

ZONES = ("UTC", "UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin")
"""Time zones of sessions. In some of them a text stands for two times."""
_SOUP = (
    "and", "or", "not", "(", ")", "[", "]", "case", "when", "then", "end", "in", "like", "between", "is", "null", "=",
    "isnull()", "cast(", "as", "decimal(20)", "int", "<", "!", "-", "/*", "*/", "--", "'", "'a'", "5", ".", ",", "::",
    "->", "?", "{", "count(1)", "${env:HOME}", "`${env:HOME}`",
)  # fmt: skip
_WORDS = ("and", "or", "AND", "and\n")
_COMPARISONS = ("=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=")
_ALIEN = (
    "'5'", "'abc'", "5", "2.5", "1e0", "true", "null", "date'2026-01-01'", "timestamp'2026-01-02 00:00:00'",
    "timestamp_ntz'2026-01-02 00:00:00'", "X'61'", "'2026-01-01'", "''", "-0.0", "9223372036854775808", "'true'",
    "interval '1' day", "cast('5' as int)", "cast(null as int)", "timestamp_ltz'2026-01-02 00:00:00.0004Z'", "'1'",
    "9007199254740993D", "0.1F", "100Y", "cast('2026-01-01' as date)", "double('NaN')", "float('inf')", "'NaN'",
)  # fmt: skip
_CASTS = (
    "int", "bigint", "smallint", "double", "float", "string", "date", "timestamp", "timestamp_ntz", "decimal(10,1)",
    "decimal(38,10)", "boolean", "decimal(22,2)", "binary",
)  # fmt: skip
_PATTERNS = ("a%", "ab%", "abc%", "%b", "ab_", "z%", f"{'z' * 33}%", f"{'z' * 40}y%", "_%", "%", "", "ab", "ü%", "x_y")
_MORE_PATTERNS = (
    "\U0001f600%", "\U0010ffff" * 33 + "%", "x%y", "u\u0308%", "%5%", "\U0001f600" * 34 + "%", "\uffff%", "\x7f%",
    "${env:HOME}%", "${%", "y" * 31 + "?%",
)  # fmt: skip


class RandomPredicates:
    """Draws predicates over columns (as SQL names them)."""

    def __init__(self, rng: Random, kinds: Mapping[str, Kind]) -> None:
        self._rng = rng
        self._kinds = kinds
        self._names = sorted(kinds)

    def draw(self, depth: int = 2) -> str:
        """Return a predicate."""
        rng = self._rng
        if depth == 0 or rng.random() < 0.4:
            return self._atom()
        if rng.random() < 0.2:
            return f"{rng.choice(['not', 'NOT', '!'])} ({self.draw(depth - 1)})"
        left, right = self.draw(depth - 1), self.draw(depth - 1)
        text = f"{left} {rng.choice(_WORDS)} {right}"
        return f"({text})" if rng.random() < 0.5 else text

    def _atom(self) -> str:
        rng = self._rng
        name = rng.choice(self._names)
        kind, column = self._kinds[name], self._column(name)
        draw = rng.random()
        if draw < 0.01:
            return self._soup()
        if draw < 0.45:
            sides = [column, self._constant(kind)]
            if rng.random() < 0.3:
                sides.reverse()
            return f"{sides[0]} {rng.choice(_COMPARISONS)} {sides[1]}"
        if draw < 0.55:
            items = ", ".join(self._constant(kind) for _ in range(rng.randint(1, 4)))
            return f"{column} {rng.choice(['in', 'not in', 'IN'])} ({items})"
        if draw < 0.65:
            between = f"{rng.choice(['', 'not '])}between"
            return f"{column} {between} {self._constant(kind)} and {self._constant(kind)}"
        if draw < 0.73:
            return rng.choice(
                [f"{column} is null", f"{column} is not null", f"not {column} is null", f"isnull({column})",
                 f"isnotnull({column})", f"{column} <=> null", f"not ({column} <=> null)"]
            )  # fmt: skip
        if draw < 0.83:
            return self._like(kind, column)
        return self._odd(name, kind, column)

    def _like(self, kind: Kind, column: str) -> str:
        rng = self._rng
        pattern = rng.choice(_PATTERNS if rng.random() < 0.7 else _MORE_PATTERNS)
        if kind.group == "time" and rng.random() < 0.7:
            text = self._text(rng.choice(kind.pool))
            return rng.choice(
                [f"{column} {rng.choice(['like', 'not like'])} '{text}'", f"cast({column} as string) = '{text}'"]
            )
        if kind.group != "string" and rng.random() < 0.8:
            texts = [name for name in self._names if self._kinds[name].group == "string"]
            column = self._column(rng.choice(texts)) if texts else column
        if rng.random() < 0.2:
            prefix = pattern.replace("%", "")
            return f"{rng.choice(['', 'not '])}startswith({column}, '{prefix}')"
        return f"{column} {rng.choice(['like', 'not like', 'LIKE', 'ilike', 'rlike'])} '{pattern}'"

    def _text(self, value: date) -> str:
        """Return a time as Spark may write it in some zone, complete or truncated."""
        if isinstance(value, datetime):
            zone = ZoneInfo(self._rng.choice(ZONES))
            text = value.replace(tzinfo=value.tzinfo or UTC).astimezone(zone).replace(tzinfo=None).isoformat(" ")
            text = text.rstrip("0") if "." in text else text
        else:
            text = value.isoformat()
        return text if self._rng.random() < 0.7 else f"{text[: self._rng.choice([4, 10, 13])]}%"

    def _soup(self) -> str:
        """Return an invalid sequence of words."""
        return " ".join(self._rng.choice((*_SOUP, *self._names)) for _ in range(self._rng.randint(1, 8)))

    def _odd(self, name: str, kind: Kind, column: str) -> str:
        rng = self._rng
        same = [other for other in self._names if self._kinds[other].group == kind.group]
        other = self._column(rng.choice(same))
        constant = self._constant(kind)
        return rng.choice(
            [
                f"cast({column} as {rng.choice(_CASTS)}) {rng.choice(_COMPARISONS)} {constant}",
                f"try_cast({column} as {rng.choice(_CASTS)}) {rng.choice(_COMPARISONS)} {constant}",
                f"cast({column} as date) <= {self._constant(KINDS['on_day'])}",
                f"to_date({column}) = {self._constant(KINDS['on_day'])}",
                f"{column} {rng.choice(_COMPARISONS)} {other}",
                f"({column} = {constant}) is {rng.choice(['true', 'false', 'not true', 'not false', 'null'])}",
                f"{column} = {constant} is not null",
                f"true = ({column} > {constant})",
                f"not {column} = {constant}",
                f"!{column} = {constant}",
                f"coalesce({column}, {constant}) = {constant}",
                f"if({column} > {constant}, {other} = {constant}, {other} is null)",
                f"case when {column} = {constant} then true when {other} < {constant} then false end",
                f"nullif({column}, {constant}) is null",
                f"{column} + 1 > {constant}",
                f"-{column} < {constant}",
                f"upper({column}) = 'ABC'",
                f"length({column}) > 3",
                f"year({column}) >= 2026",
                f"({column}, 1) = ({constant}, 1)",
                f"{column} is not distinct from {constant}",
                f"{column} in ({constant}) = true",
                f"equal_null({column}, {constant})",
                f"{column} || 'x' > {constant}",
                "flag" if name == "flag" else f"{column} /* {constant} */ >= {constant} -- and so on",
                f"least({column}, {constant}) < {constant}",
                rng.choice(["true", "false", "null", "1 = 1", "not null", "null = 1", "1 > 2"]),
            ]
        )

    def _column(self, name: str) -> str:
        text = name
        if self._rng.random() < 0.15:
            text = name.upper()
        return f"({text})" if self._rng.random() < 0.05 else text

    def _constant(self, kind: Kind) -> str:
        rng = self._rng
        if rng.random() < 0.12:
            return rng.choice(_ALIEN)
        return _literal(rng, rng.choice(kind.pool))


def _literal(rng: Random, value: Any) -> str:
    match value:
        case bool():
            return rng.choice([str(value).lower(), str(value).upper()])
        case float():
            if value != value or value in (float("inf"), -float("inf")):
                return rng.choice([f"double('{value}')", f"cast('{value}' as double)", f"float('{value}')", "1e308"])
            return rng.choice([f"{value!r}D", f"{value!r}", f"{value:.17g}D", f"'{value!r}'", f"{value!r}F"])
        case int():
            forms = [str(value), str(value), f"{value}L", f"{value}.0", f"{value}D", f"'{value}'", f"+{value}"]
            more = [f"{value}{end}" for end in ("S", "Y", "BD", ".5", "e0")] + [f"cast({value} as decimal(20,0))"]
            return rng.choice(forms if rng.random() < 0.7 else more)
        case Decimal():
            longer = f"{value}5" if "." in str(value) else f"{value}.5"
            return rng.choice([str(value), f"{value}BD", f"'{value}'", f"{value}D", longer, f"decimal('{value}')"])
        case str():
            text = value.replace("'", "''") if rng.random() < 0.5 else value.replace("'", "\\'")
            return rng.choice([f"'{text}'", f"'{text}'", f"'{text}a'", f'"{value}"' if '"' not in value else "'q'"])
        case datetime():
            text = value.isoformat(" ").replace("+00:00", "")
            zone = rng.choice(["", "", "Z", "+01:00", " Europe/Berlin"])
            form = rng.choice(["timestamp'{}'", "timestamp '{}'", "'{}'", "cast('{}' as timestamp)", "'{}'"])
            ntz = rng.random() < 0.2
            return f"timestamp_ntz'{text}'" if ntz else form.format(f"{text}{zone}")
        case date():
            forms = ["date'{}'", "DATE '{}'", "'{}'", "cast('{}' as date)", "timestamp'{}'", "'{} 12:00:00'"]
            return rng.choice(forms).format(value.isoformat())
        case bytes():
            return rng.choice([f"X'{value.hex()}'", "'a'", "cast('abc' as binary)"])
    raise AssertionError(value)
