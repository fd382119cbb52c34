"""Names, strings and types as SQL that means the same in every session. No Spark."""

from __future__ import annotations

# The meaning of the SQL type `timestamp` depends on the session.
SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "timestamp": "timestamp_ltz"}

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_LONGEST = (1 << 63) - 1


def timestamp_sql(ms: str) -> str:
    """Return SQL for a time in ms since the epoch as a timestamp; null outside of the years 1 to 9999. ms: SQL."""
    # Spark raises an error for milliseconds that are not a timestamp, such as the nanoseconds of a faulty writer.
    return f"timestamp_millis(if({ms} between {FIRST_MS}L and {LAST_MS}L, {ms}, null))"


def later_sql(ms: str, added_ms: int) -> str:
    """Return SQL for a time in ms plus a duration of 0 ms or more; the last time there is, if the sum is beyond it."""
    return f"coalesce(try_add({ms}, {added_ms}L), {_LONGEST}L)"


def exact_sum_sql(number: str) -> str:
    """Return SQL for the sum of a bigint as decimal, 0 for no rows: a sum of sizes may exceed 64 bits. number: SQL."""
    return f"coalesce(sum(cast({number} as decimal(38, 0))), 0)"


def let_sql(name: str, value: str, result: str) -> str:
    """Return SQL for a result in which `name` is a value, so that the value is evaluated once. All are SQL."""
    # An index in brackets is checked, for which some engines copy the value: nested, the plan grows exponentially.
    return f"get(transform(array({value}), {name} -> {result}), 0)"


def quoted(name: str) -> str:
    """Return a name as quoted SQL."""
    return f"`{name.replace('`', '``')}`"


def string_sql(text: str) -> str:
    """Return a string as SQL, for any content and any setting of the session for escapes."""
    return f"cast(X'{text.encode().hex()}' as string)"


def sql_type(data_type: str) -> str:
    """Return the SQL name of a column type."""
    return SQL_TYPES.get(data_type, data_type)
