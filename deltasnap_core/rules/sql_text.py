"""Names, strings and types as SQL that means the same in every session. No Spark."""

from __future__ import annotations

# The meaning of the SQL type `timestamp` depends on the session.
SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "timestamp": "timestamp_ltz"}


def quoted(name: str) -> str:
    """Return a name as quoted SQL."""
    return f"`{name.replace('`', '``')}`"


def string_sql(text: str) -> str:
    """Return a string as SQL, for any content and any setting of the session for escapes."""
    return f"cast(X'{text.encode().hex()}' as string)"


def sql_type(data_type: str) -> str:
    """Return the SQL name of a column type."""
    return SQL_TYPES.get(data_type, data_type)
