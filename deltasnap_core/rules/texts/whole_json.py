"""Reads statistics as JSON in SQL: the whole text counts, or nothing of it.

Spark's parser ignores what follows a JSON value, and accepts more than JSON. Its limits for the nesting and for the
length of a name remain: beyond them, a text is invalid.
"""

from __future__ import annotations

from deltasnap_core.protocol.json_text import MAX_NESTING
from deltasnap_core.rules.texts.sql_text import let_sql, string_sql

_ESCAPE, _MASK = string_sql(r"\u"), string_sql("\x01")  # a character that JSON text never contains
_BACKSLASH = string_sql(r"\\"), string_sql(r"\u005c")
_QUOTE = string_sql(r"\""), string_sql(r"\u0022")
_SURROGATE = string_sql(r"\\u[dD][89a-fA-F]")
_SURROGATE_PAIR = string_sql(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_MASKED_PAIR = string_sql("\x01$1\x01$2")
_VALUE_WITH_LONE_SURROGATE = string_sql(r':[ \t\r\n]*"[^"]*\\u[dD][89a-fA-F][^"]*"')

_STRICT = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxNestingDepth": str(MAX_NESTING + 1),  # one level is the array around the text
    "maxNumLen": str(2**31 - 1),
    "maxStringLen": str(2**31 - 1),
}


def whole_json_sql(text: str, struct: str) -> str:
    """Return SQL for a JSON object in a type; null if the text is not one JSON value (RFC 8259), or another kind.

    text: SQL. struct: a SQL type, `struct<...>`. A field of another kind is null.
    """
    return _parsed(text, text, struct)


def whole_statistics_sql(text: str, struct: str) -> str:
    """Return the same for statistics: a bound with half of a character is null, see `whole_characters_sql`."""
    return _parsed(text, whole_characters_sql(text), struct)


def _parsed(text: str, read: str, struct: str) -> str:
    """Return SQL for a text in a type. read: SQL for the same text, perhaps with some values replaced."""
    options = ", ".join(f"'{name}', '{value}'" for name, value in _STRICT.items())
    # The text becomes the first element of an array, followed by an empty object. The text is one value if the parsed
    # array has two elements. But a `]` in the text could end the array, and Spark ignores what follows. A text with n
    # commas has at most n + 1 values, so with a `]` it is followed by n + 1 objects: an array that ends early is too
    # short.
    objects = f"if(contains({text}, ']'), length({text}) - length(replace({text}, ',', '')) + 1, 1)"
    array = f"concat('[', {read}, repeat(',{{}}', {objects}), ']')"
    parsed = f"from_json({array}, {string_sql(f'array<{struct}>')}, map({options}))"
    return let_sql("j", parsed, f"if(size(j) = 1 + {objects}, get(j, 0), null)")


def whole_characters_sql(text: str) -> str:
    """Return SQL for a JSON text in which each string value with half of a character, such as `\\ud83c`, is null.

    A writer that cuts a string after a number of UTF-16 units leaves half of a surrogate pair. Spark reads it as `?`,
    which is less than the character: such a bound would not be one. text: SQL. No other value changes.
    """
    # Backslashes and quotes within strings are written in another way first, so that each `\\u` begins a character, and
    # each quote begins or ends a string. The patterns are plain: Java evaluates groups with alternatives recursively,
    # and not every engine has lookahead.
    known = f"replace({text}, {_BACKSLASH[0]}, {_BACKSLASH[1]})"
    known = f"replace({known}, {_QUOTE[0]}, {_QUOTE[1]})"
    known = f"regexp_replace({known}, {_SURROGATE_PAIR}, {_MASKED_PAIR})"
    known = f"regexp_replace({known}, {_VALUE_WITH_LONE_SURROGATE}, ':null')"
    known = f"replace({known}, {_MASK}, {_ESCAPE})"
    return f"if({text} rlike {_SURROGATE} and not contains({text}, {_MASK}), {known}, {text})"
