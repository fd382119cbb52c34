"""Runs SQL expressions of the core in SQLite, without a JVM: those whose meaning is the same there as in Spark."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Callable
from typing import Any

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "if": lambda condition, one, other: one if condition else other,
    "floor": lambda number: None if number is None else math.floor(number),
    "greatest": lambda *numbers: max((number for number in numbers if number is not None), default=None),
    "log2": lambda number: math.log2(number) if number else None,
}
"""Functions of Spark that SQLite lacks."""


def evaluated(sql: str, *, functions: dict[str, Callable[..., Any]] | None = None, **columns: Any) -> Any:
    """Return the value of an expression over columns. A condition is 1, 0 or None (unknown).

    functions: by name, further ones that the expression calls.
    """
    database = sqlite3.connect(":memory:")
    for name, function in {**_FUNCTIONS, **(functions or {})}.items():
        database.create_function(name, -1, function)
    database.execute(f"create table row ({', '.join(columns)})")
    database.execute(f"insert into row values ({', '.join('?' * len(columns))})", list(columns.values()))
    ((found,),) = database.execute(f"select {re.sub(r'(?<=[0-9])L', '', sql)} from row")
    return found
