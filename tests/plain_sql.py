"""Runs SQL expressions of the core in SQLite, without a JVM: those whose meaning is the same there as in Spark."""

from __future__ import annotations

import re
import sqlite3
from typing import Any


def evaluated(sql: str, **columns: Any) -> Any:
    """Return the value of an expression over columns. SQL may be a condition: then it is 1, 0 or None (unknown)."""
    database = sqlite3.connect(":memory:")
    database.execute(f"create table row ({', '.join(columns)})")
    database.execute(f"insert into row values ({', '.join('?' * len(columns))})", list(columns.values()))
    ((found,),) = database.execute(f"select {re.sub(r'(?<=[0-9])L', '', sql)} from row")
    return found
