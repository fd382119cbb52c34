"""SQL that converts texts of a log, partition values and bounds of statistics, to the types of their columns. No Spark.

Spark's casts accept more than writers write: `12:30` is a time of today, `2024` is a date, `yes` is true, `1f` is a
double, and a decimal is rounded. A text in such a form is invalid. Forms on which other readers and Spark agree are
valid. Integers need no form: the cast accepts blanks around them, and nothing else.
Source: PROTOCOL.md, Partition Value Serialization; Per-file Statistics.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from deltasnap_core.rules.texts.sql_text import sql_type, string_sql

_INTEGERS = ("byte", "short", "integer", "long")
_DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"
_DOUBLE = rf"({_DECIMAL}|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])"
_DATE = "[+-]?[0-9]{4,7}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = r"[ T][0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]*)?)?"
_UTC = " ?(Z|UTC)"
_FORMS = {
    "float": _DOUBLE,
    "double": _DOUBLE,
    "boolean": "([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])",
    "date": _DATE,
    "timestamp": rf"{_DATE}({_TIME}({_UTC}|[+-][0-9]{{1,2}}(:?[0-9]{{2}})?)?)?",
    "timestamp_ntz": rf"{_DATE}({_TIME}({_UTC})?)?",
}
_FIRST_TIME, _LAST_TIME = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_END = r"\z"  # `$` also matches before a line break
_FRACTION = string_sql(r"\.([0-9]*?)0*([eE]|\z)")
_EXPONENT = string_sql("[eE]([+-]?[0-9]+)")


def typed_sql(text: str, data_type: str) -> str | None:
    """Return SQL for a text in the type of a column; an invalid text becomes null. text: SQL.

    Returns None for a type that is not a number, boolean, date or time.
    """
    cast = f"try_cast({text} as {sql_type(data_type)})"
    if data_type in _INTEGERS:
        return cast
    is_decimal = data_type.startswith("decimal(")
    form = _DECIMAL if is_decimal else _FORMS.get(data_type)
    if form is None:
        return None
    is_valid = f"{text} rlike {string_sql(f'^{form}{_END}')}"
    if is_decimal:
        is_valid = f"({is_valid} and {_decimal_places_sql(text)} <= {_scale(data_type)})"
    return f"if({is_valid}, {cast}, null)"


def python_value_sql(value: str, data_type: str) -> str:
    """Return SQL for a value; null for a date or time outside of the years 1 to 9999, which Python does not have.

    value: SQL, of the type of a column. For a timestamp, the years are those in UTC, in the zone of the session and in
    the zone of this process, to which PySpark converts it.
    """
    if data_type not in ("date", "timestamp", "timestamp_ntz"):
        return value
    in_process = ""
    if data_type == "timestamp":
        first, last = (f"timestamp_ltz'{time.isoformat(sep=' ')}'" for time in _python_times())
        in_process = f" and {value} between {first} and {last}"
    return f"if(year({value}) between 1 and 9999{in_process}, {value}, null)"


def _python_times() -> tuple[datetime, datetime]:
    """Return the first and the last time that `datetime.fromtimestamp` accepts in UTC and in the zone of this process.

    To find days on which clocks are set back, it also converts the time a day earlier.
    """
    margin, none = timedelta(days=2), timedelta()
    early, late = (time.astimezone().utcoffset() or none for time in (_FIRST_TIME + margin, _LAST_TIME - margin))
    return _FIRST_TIME + timedelta(days=1) + max(none, -early), _LAST_TIME - max(none, late)


def _decimal_places_sql(text: str) -> str:
    """Return SQL for the digits of a decimal after its point, without zeros at the end: a cast rounds the others."""
    exponent = f"coalesce(try_cast(nullif(regexp_extract({text}, {_EXPONENT}, 1), '') as int), 0)"
    return f"length(regexp_extract({text}, {_FRACTION}, 1)) - {exponent}"


def _scale(data_type: str) -> int:
    return int(data_type.partition(",")[2].removesuffix(")") or 0)
