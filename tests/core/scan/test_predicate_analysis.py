"""What Spark's settings and errors mean for a predicate. Sessions and errors are fakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from deltasnap_core.errors import PredicateError
from deltasnap_core.scan.predicate_analysis import _reads_otherwise, checked_skipping, predicate_failures
from deltasnap_core.scan.table_columns import TableColumns
from tests.core.scan.skipping.skipping_builders import columns

ANSI = {"spark.sql.ansi.enabled": "true"}
NAMES = {"spark.sql.ansi.doubleQuotedIdentifiers": "TRUE"}
RESERVED = {"spark.sql.ansi.enforceReservedKeywords": "true"}


class Filtered:
    """Filtered rows that Spark analyzes. error: of the analysis."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    @property
    def schema(self) -> None:
        if self._error is not None:
            raise self._error


def table(settings: dict[str, str] | None = None, error: Exception | None = None) -> Any:
    found: TableColumns = columns()
    conf = SimpleNamespace(get=lambda name, default: (settings or {}).get(name, default))
    scanned = SimpleNamespace(
        no_rows=SimpleNamespace(where=lambda _: Filtered(error), schema=None),
        columns=found,
        spark=SimpleNamespace(conf=conf),
        _is_set=lambda name, default: conf.get(name, default) == "true",
    )
    scanned.replaces_variables = scanned._is_set("spark.sql.variable.substitute", "true")
    return scanned


@pytest.mark.parametrize(
    ("where", "settings", "expected"),
    [
        ('"id" = 1', {**ANSI, **NAMES}, True),
        ('"id" = 1', ANSI, False),
        ('"id" = 1', NAMES, True),  # Spark's default is ANSI
        ('"id" = 1', {**NAMES, "spark.sql.ansi.enabled": "false"}, False),
        ("id = 1", {**ANSI, **NAMES}, False),
        ("User = 'ada'", RESERVED, True),
        ("User = 'ada'", {**RESERVED, "spark.sql.ansi.enabled": "false"}, False),
        ("name = 'ada'", RESERVED, False),
        ("name = '${my.value}'", {}, False),
        ("at > TIMESTAMP'2026-01-01'", {"spark.sql.timestampType": "TIMESTAMP_NTZ"}, True),
        ("at > timestamp'2026-01-01'", {"spark.sql.timestampType": "TIMESTAMP_LTZ"}, False),
        ("at > timestamp'2026-01-01'", {}, False),
        ("id = 1", {"spark.sql.timestampType": "TIMESTAMP_NTZ"}, False),
        ("on_day < '2026-1-6'", {"spark.sql.legacy.typeCoercion.datetimeToString.enabled": "true"}, True),
        ("on_day < '2026-1-6'", {"spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false"}, False),
    ],
)
def test_settings_that_change_the_meaning_of_a_text_are_found(
    where: str, settings: dict[str, str], expected: bool
) -> None:
    assert _reads_otherwise(table(settings), where) is expected


def test_text_with_another_meaning_skips_nothing() -> None:
    where = "id = 1 and at > timestamp'2026-01-01' and length(text) = 2"
    found = checked_skipping(table({"spark.sql.timestampType": "TIMESTAMP_NTZ"}), where)
    assert (found.partitions, found.statistics, len(found.unused)) == (None, None, 3)


def test_text_that_only_spark_parses_skips_nothing() -> None:
    found = checked_skipping(table(), "id = 1 and")
    assert (found.partitions, found.statistics, found.unused) == (None, None, ("id = 1 and",))


def test_quoted_name_that_spark_would_replace_is_refused_with_its_place() -> None:
    where = "name = '${a}' and transform(array(1), `${env:HOME}` -> `${env:HOME}`) is null"
    with pytest.raises(PredicateError, match=r"`\$\{env:HOME\}` as a variable") as raised:
        checked_skipping(table(), where)
    assert raised.value.position == where.index("`")
    checked_skipping(table({"spark.sql.variable.substitute": "false"}), where)


def test_backslash_is_refused_where_the_session_does_not_unescape_texts() -> None:
    escaped = {"spark.sql.parser.escapedStringLiterals": "true"}
    where = r"name = '\' or exists(table text.`/etc/passwd`) or '' = ''"
    with pytest.raises(PredicateError, match="escapedStringLiterals=true, a backslash") as raised:
        checked_skipping(table(escaped), where)
    assert raised.value.position == where.index("\\")
    checked_skipping(table(escaped), "name = 'a'")
    checked_skipping(table(), r"name = 'a\\b'")


class Context:
    def __init__(self, start: int | Exception) -> None:
        self._start = start

    def startIndex(self) -> int:  # noqa: N802
        if isinstance(self._start, Exception):
            raise self._start
        return self._start


@pytest.mark.parametrize(
    ("starts", "position"),
    [((), None), ((0,), 0), ((5,), 5), ((6,), None), ((-1,), None), ((PySparkException("none"), 3), 3)],
)
def test_problem_is_located_in_the_text(starts: Any, position: int | None) -> None:
    contexts: Any = [Context(start) for start in starts]
    error = AnalysisException("There is no column.\nPlan SQLSTATE: 42703", "NO_COLUMN", {}, contexts)
    with pytest.raises(PredicateError) as raised:
        checked_skipping(table(error=error), "id = 1")
    assert raised.value.position == position
    assert raised.value.reason == "[NO_COLUMN] There is no column."


def test_failure_for_a_row_is_one_of_the_predicate_if_there_is_one() -> None:
    for where, kind in (("1 / id > 1", PredicateError), (None, PySparkException)):
        error = PySparkException("Division by zero. SQLSTATE: 22012", "DIVIDE_BY_ZERO", {})
        with pytest.raises(kind) as raised, predicate_failures(where):
            raise error
        if isinstance(raised.value, PredicateError):
            assert raised.value.reason == "it fails for some row: [DIVIDE_BY_ZERO] Division by zero."
    with pytest.raises(PySparkException, match="stopped"), predicate_failures("id = 1"):
        raise PySparkException("The server has stopped")
