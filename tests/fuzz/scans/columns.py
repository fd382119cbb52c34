"""The columns of random tables: their types, and values that are critical for predicates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

NAN, INFINITE = float("nan"), float("inf")
TEXTS = (
    "", "a", "ab", "abc", "abd", "b", "ü", "u\u0308", "z" * 32, "z" * 33, "z" * 40, "z" * 40 + "y", "A'b", 'say "x"',
    "x%y", "x_y", "5", "-1.25", "2026-01-01", "true", "null", " a", "\t", "\x7f", "\uffff", "\ufb01", "\U0001f600",
    "\U0001f600" * 33, "\U0010ffff" * 33, "y" * 31 + "\U0001f600", "a/b=c %25?", "${env:HOME}",
    "a ${spark.app.name} b", "${", "y" * 31 + "?", "y" * 31 + "\ufffd",
)  # fmt: skip
DATES = (
    date(2026, 1, 1), date(2026, 1, 2), date(2026, 3, 8), date(1970, 1, 1), date(1969, 12, 31), date(1582, 10, 4),
    date(1582, 10, 10), date(1582, 10, 15), date(1400, 2, 28), date(1, 1, 1), date(9999, 12, 31),
)  # fmt: skip
_MIDNIGHT = datetime(2026, 1, 1, 23, 59, 59, 999_999, UTC)
TIMES = (
    *(_MIDNIGHT + timedelta(microseconds=step) for step in (0, 1, 400, 999, 1_000, 1_001, 3_600_000_000)),
    datetime(2026, 11, 1, 5, 59, 59, 123_456, UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC),
    datetime(2020, 10, 25, 0, 30, tzinfo=UTC), datetime(2020, 10, 25, 1, 30, tzinfo=UTC),
    datetime(1582, 10, 10, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC),
    datetime(1883, 11, 18, 17, 0, 0, 1, UTC),
    datetime(1500, 3, 1, 12, 0, 0, 1_500, UTC), datetime(9998, 12, 31, tzinfo=UTC),
)  # fmt: skip
FULL_ACTION = (-3, -1, 0, 1, 2, 5, 7, 30, 100)
LONG = (*FULL_ACTION, 2**53, 2**53 + 1, -(2**62), 2**63 - 1, -(2**63))
FLOATS = (NAN, INFINITE, -INFINITE, -0.0, 0.0, 0.1, 1.5, 5.0, -2.25, 1e300, 5e-324)
SINGLES = (NAN, INFINITE, -0.0, 0.0, 0.10000000149011612, 1.5, -2.25, 16777216.0)
MONEY = tuple(map(Decimal, ("0.00", "-1.25", "3.10", "5.00", "99999999.99", "-99999999.99")))
FEES = tuple(map(Decimal, ("0.00", "-1.25", "5.00", "9999999.99")))
LARGE = tuple(
    map(Decimal, ("0.00", "-1.25", "5.00", "12345678901234567.89", "12345678901234567.88", "-999999999999999999.99"))
)
HUGE = tuple(map(Decimal, ("0", "5", "-1", "99999999999999999999999999999999999999", "12345678901234567890123456789")))
FLAGS = (True, False)
BYTES = (b"", b"\x00", b"\x01\xff", b"a", b"abc")


@dataclass(frozen=True)
class Kind:
    """The kind of a column. pool: its values. group: types that predicates treat alike."""

    type: pa.DataType
    pool: tuple[Any, ...]
    group: str


_NAIVE = tuple(time.replace(tzinfo=None) for time in TIMES)
KINDS = {
    "id": Kind(pa.int64(), LONG, "number"),
    "small": Kind(pa.int16(), FULL_ACTION, "number"),
    "tiny": Kind(pa.int8(), FULL_ACTION, "number"),
    "n": Kind(pa.int32(), FULL_ACTION, "number"),
    "x": Kind(pa.float64(), FLOATS, "number"),
    "f": Kind(pa.float32(), SINGLES, "number"),
    "price": Kind(pa.decimal128(10, 2), MONEY, "number"),
    "fee": Kind(pa.decimal128(9, 2), FEES, "number"),
    "amount": Kind(pa.decimal128(20, 2), LARGE, "number"),
    "huge": Kind(pa.decimal128(38, 0), HUGE, "number"),
    "name": Kind(pa.string(), TEXTS, "string"),
    "at": Kind(pa.timestamp("us", tz="UTC"), TIMES, "time"),
    "wall": Kind(pa.timestamp("us"), _NAIVE, "time"),
    "on_day": Kind(pa.date32(), DATES, "time"),
    "flag": Kind(pa.bool_(), FLAGS, "boolean"),
    "raw": Kind(pa.binary(), BYTES, "binary"),
}
_INNER = pa.struct([("x", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))])
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("d", pa.decimal128(10, 2)), ("t", _INNER)])
NESTED = {"s.a": KINDS["n"], "s.b": KINDS["name"], "s.d": KINDS["price"], "s.t.x": KINDS["x"], "s.t.at": KINDS["at"]}
ITEMS, LABELS = pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32())


def _can_be_partition(name: str, value: Any) -> bool:
    """Return whether the writer can partition by this value: folder names contain it, and negative decimals fail."""
    return value >= 0 if name == "price" else not isinstance(value, str) or len(value.encode()) < 60


PARTITIONS = {
    f"p_{name}": Kind(kind.type, tuple(value for value in kind.pool if _can_be_partition(name, value)), kind.group)
    for name, kind in KINDS.items()
    if name not in ("huge", "amount", "fee", "x", "f", "tiny", "small")
} | {
    "p_x": Kind(pa.float64(), (0.1, 1.5, -2.25, 5.0, -0.0, NAN, INFINITE), "number"),
    "p_tiny": KINDS["tiny"],
    "p_f": Kind(pa.float32(), SINGLES[2:-1], "number"),
}  # fmt: skip


def some_of(rng: Random, kind: Kind) -> tuple[Any, ...]:
    """Return a few values of a kind, for one file."""
    return tuple(rng.sample(kind.pool, min(len(kind.pool), rng.choice([1, 2, 3]))))


def maybe(rng: Random, value: Any, nulls: float) -> Any:
    """Return the value, or null with this probability."""
    return None if rng.random() < nulls else value


def struct_of(rng: Random, values: dict[str, tuple[Any, ...]], nulls: dict[str, float]) -> dict[str, Any]:
    """Return a value of STRUCT."""
    a, b, d, x, at = (maybe(rng, rng.choice(values[name]), nulls[name]) for name in NESTED)
    return {"a": a, "b": b, "d": d, "t": maybe(rng, {"x": x, "at": at}, 0.2)}
