"""Reads statistics as JSON in SQL: the whole text counts, or nothing of it.

Spark's parser ignores what follows a JSON value, and accepts more than JSON. Its limits for the nesting and for the
length of a name remain: beyond them, a text is invalid.
"""

from __future__ import annotations

from deltasnap_core.protocol.json_text import MAX_NESTING
from deltasnap_core.rules.sql_text import string_sql

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
    options = ", ".join(f"'{name}', '{value}'" for name, value in _STRICT.items())
    # The text is put in an array. It is one value if the array has it and the last element. The lambda is needed so
    # that the JSON is parsed only once.
    parsed = f"from_json(concat('[', {text}, ',{{}}]'), {string_sql(f'array<{struct}>')}, map({options}))"
    return f"transform(array({parsed}), j -> if(size(j) = 2, j[0], null))[0]"
