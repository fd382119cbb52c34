"""Checks a predicate with Spark's analyzer, and reports predicates that fail later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.errors import PredicateError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.replay.spark.session.spark_failures import SPARK_FAILURES, is_about_values, spark_cause
from deltasnap_core.scan.predicates.spark_text import check_names, place_in, spark_text
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.data_skipping import Skipping, skipping_of

_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
_RESERVED_NAMES = "spark.sql.ansi.enforceReservedKeywords"
_TIMESTAMPS, _ZONED = "spark.sql.timestampType", "timestamp_ltz"
_ESCAPED_STRINGS = "spark.sql.parser.escapedStringLiterals"
_DATES_AS_TEXT = "spark.sql.legacy.typeCoercion.datetimeToString.enabled"


def checked_skipping(table: ScannedTable, where: str) -> Skipping:
    """Return the file conditions of a predicate, after Spark's analyzer has accepted it.

    Errors: PredicateError; CorruptLogError if Spark refuses the schema of the table.
    """
    rows = table.no_rows
    if "${" in where and table.replaces_variables:
        check_names(where)
    if "\\" in where and _setting(table, _ESCAPED_STRINGS, "false") == "true":
        # A text would end elsewhere: what follows was not checked.
        reason = f"with {_ESCAPED_STRINGS}=true, a backslash cannot be used here"
        raise PredicateError(predicate=where, position=where.index("\\"), reason=reason)
    skipping = skipping_of(where, table.columns)
    try:
        _ = rows.where(spark_text(where)).schema
    except SPARK_FAILURES as error:  # Java exceptions too: a stack overflow despite the limits
        raise PredicateError(
            predicate=where, position=_position(where, error), reason=_reason(error, "analyze")
        ) from error
    if _reads_otherwise(table, where):
        return Skipping(unused=(*skipping.used, *skipping.unused))
    return skipping if _is_ansi(table) else replace(skipping, sure=None)


def check_deterministic(table: ScannedTable, where: str) -> None:
    """Raise PredicateError for a predicate that Spark accepts, but that differs each time: `rand() < 0.5`."""
    checked_skipping(table, where)
    try:
        _ = table.no_rows.agg(F.count_if(F.expr(spark_text(where)))).schema
    except SPARK_FAILURES as error:
        reason = "a function that returns something else each time cannot be used here"
        raise PredicateError(predicate=where, position=None, reason=reason) from error


def filtered_rows(table: ScannedTable, rows: DataFrame, where: str) -> DataFrame:
    """Return the rows of a metadata table for which a predicate over its columns is true.

    table: the table that they describe. Errors: PredicateError, by the rules for predicates of a scan.
    """
    columns = Metadata(id=table.metadata.id, schema_string=rows.schema.json(), partition_columns=(), configuration={})
    checked_skipping(replace(table, metadata=columns, is_checked=True, place=None), where)
    return rows.where(spark_text(where))


@contextmanager
def predicate_failures(where: str | None) -> Iterator[None]:
    """Raise PredicateError if Spark cannot evaluate a predicate for some row, while its result is collected.

    Other exceptions are not changed.
    """
    try:
        yield
    except SPARK_FAILURES as error:
        if where is None or not is_about_values(error):
            raise
        reason = f"it fails for some row: {_reason(error, 'evaluate')}"
        raise PredicateError(predicate=where, position=_position(where, error), reason=reason) from error


def _reads_otherwise(table: ScannedTable, where: str) -> bool:
    """Return whether session settings change the meaning of the text.

    They may quote names with double quotes, read the column `user` as the current user, read times without a zone, or
    compare dates with strings as strings.
    """
    of_names = (_DOUBLE_QUOTED_NAMES, '"'), (_RESERVED_NAMES, "user")
    names = any(
        text in where.lower() and _is_ansi(table) and _setting(table, name, "false") == "true"
        for name, text in of_names
    )
    times = "timestamp" in where.lower() and _setting(table, _TIMESTAMPS, _ZONED) != _ZONED
    return names or times or _setting(table, _DATES_AS_TEXT, "false") == "true"


def _is_ansi(table: ScannedTable) -> bool:
    return _setting(table, _ANSI, "true") == "true"


def _setting(table: ScannedTable, name: str, default: str) -> str:
    """Return a setting in lower case. default: that of Spark, which `conf.get` does not know if it is given another."""
    return str(table.spark.conf.get(name, default)).lower()


def _position(where: str, error: BaseException) -> int | None:
    if not isinstance(error, PySparkException):
        return None
    for context in error.getQueryContext() or ():
        try:
            start = int(context.startIndex())
        except PySparkException:  # the context of a DataFrame, not of a text
            continue
        start = place_in(where, start)
        if 0 <= start < len(where):
            return start
    return None


def _reason(error: BaseException, task: str) -> str:
    if not isinstance(error, PySparkException):
        return f"Spark cannot {task} it: {spark_cause(error)}"
    message = str(error.getMessage() or error)
    return message.partition(" SQLSTATE:")[0].partition("\n")[0].strip()
