"""Names, strings and types as SQL that means the same in every session. No Spark."""

from __future__ import annotations

# What SQL calls `timestamp` alone is for the session to say.
SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "timestamp": "timestamp_ltz"}


def string_sql(text: str) -> str:
    """Return a string as SQL whatever is in it and however the session reads escapes."""
    return f"cast(X'{text.encode().hex()}' as string)"


def sql_type(data_type: str) -> str:
    """Return the name that SQL has for the type of a column."""
    return SQL_TYPES.get(data_type, data_type)
