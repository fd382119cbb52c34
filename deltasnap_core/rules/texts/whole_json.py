"""Reads statistics as JSON in SQL: the whole text counts, or nothing of it.

Spark's parser ignores what follows a JSON value, and accepts more than JSON. Its limits for the nesting and for the
length of a name remain: beyond them, a text is invalid.
"""

from __future__ import annotations

from deltasnap_core.protocol.json_text import MAX_NESTING
from deltasnap_core.rules.texts.sql_text import let_sql, string_sql

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
    # The text is put in an array, before an empty object: it is one value if the array has two. A text with a `]` could
    # end the array, and Spark ignores what follows. So it is put before more objects than it can have values, which
    # are at most one more than its commas.
    objects = f"if(contains({text}, ']'), length({text}) - length(replace({text}, ',', '')) + 1, 1)"
    array = f"concat('[', {text}, repeat(',{{}}', {objects}), ']')"
    parsed = f"from_json({array}, {string_sql(f'array<{struct}>')}, map({options}))"
    return let_sql("j", parsed, f"if(size(j) = 1 + {objects}, get(j, 0), null)")
