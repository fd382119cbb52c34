"""SQL that converts partition values, which are texts in a log, to the types of their columns. No Spark.

Source: PROTOCOL.md, Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltasnap_core.rules.texts.sql_text import quoted, string_sql
from deltasnap_core.rules.texts.typed_texts import python_value_sql, typed_sql
from deltasnap_core.scan.table_columns import TableColumn

# Some writers escape each byte, others treat the bytes as UTF-8.
_ESCAPED_BYTES, _ESCAPE = string_sql(r"^(\\u00[0-9A-Fa-f]{2})+$"), string_sql(r"\\u00")


def text_of(column: TableColumn) -> str:
    """Return SQL for the text of a file's partition value, from the column `partitionValues` of AddFile.

    Without the exact name of the column as a key, it is null, as for Delta on Spark and its kernels. A scan raises an
    error if the key has another case.
    """
    return f"partitionValues[{string_sql(column.physical_name)}]"


def partition_value(column: TableColumn, text: str | None = None) -> str | None:
    """Return SQL for the typed value of a partition column; an empty or invalid text becomes null.

    text: SQL; None: the text of a file. Returns None for a type that cannot be a partition value.
    """
    text = text_of(column) if text is None else text
    if column.data_type == "string":
        return f"nullif({text}, '')"
    if column.data_type == "binary":
        unescaped = f"unhex(regexp_replace({text}, {_ESCAPE}, ''))"
        return f"if({text} rlike {_ESCAPED_BYTES}, {unescaped}, cast(nullif({text}, '') as binary))"
    return typed_sql(text, column.data_type)


def shown_value(column: TableColumn, text: str | None = None) -> str:
    """Return the same as `partition_value`, or the text for another type, such as a string with a collation.

    An empty text is null.
    """
    return partition_value(column, text) or f"nullif({text_of(column) if text is None else text}, '')"


def partition_sql(values: Iterable[tuple[TableColumn, str]]) -> str:
    """Return SQL for a struct of partition values that Python can read: null outside of the years 1 to 9999.

    values: columns, and SQL for their typed values.
    """
    fields = [f"{python_value_sql(value, column.data_type)} as {quoted(column.name)}" for column, value in values]
    return f"struct({', '.join(fields)})"


def is_malformed(column: TableColumn) -> str | None:
    """Return SQL for whether a file's partition value is invalid for its column; never null.

    None: it is never invalid.
    """
    value = typed_sql(text_of(column), column.data_type)
    return None if value is None else f"(coalesce({text_of(column)}, '') != '' and {value} is null)"


def is_misspelled(column: TableColumn) -> str:
    """Return SQL for whether a file has no value under the name of a column, but one under its name in another case.

    True without `partitionValues`; never null. `misspelled_key` is the same rule for one file.
    """
    name = string_sql(column.physical_name)
    other = f"exists(map_keys(partitionValues), k -> k != {name} and lower(k) = lower({name}))"
    return f"({text_of(column)} is null and coalesce({other}, true))"


def misspelled_key(column: TableColumn, values: Mapping[str, str | None]) -> str | None:
    """Return the key of a file's value under the name of a column in another case, if the name itself has no value.

    Delta on Spark and its kernels read such a value as null.
    """
    name = column.physical_name
    if values.get(name) is not None:
        return None
    return next((key for key in values if key != name and key.lower() == name.lower()), None)


def malformed_texts(columns: Iterable[TableColumn]) -> str:
    """Return SQL for the invalid partition values of a file: an array of texts, with null for a valid value."""
    tests = [(is_malformed(column), text_of(column)) for column in columns]
    texts = [f"if({test}, {text}, null)" for test, text in tests if test is not None]
    return f"array({', '.join(['cast(null as string)', *texts])})"
