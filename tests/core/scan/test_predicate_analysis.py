"""What Spark's settings and errors mean for a predicate, and how many files its conditions leave."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from deltasnap_core.errors import PredicateError
from deltasnap_core.replay.spark.reading.action_reader import PARSED
from deltasnap_core.scan.planning import ScanReport, chosen_files, condition_reports, report_of, stated_count
from deltasnap_core.scan.predicate_analysis import _position, _reads_otherwise, checked_skipping, predicate_failures
from deltasnap_core.scan.skipping.data_skipping import skipping_of
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
def test_settings_that_change_meanings_are_found(where: str, settings: dict[str, str], expected: bool) -> None:
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


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [
    (1, {"region": "eu"}, {"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}),
    (10, {"region": "eu"}, {"numRecords": 2, "minValues": {"id": 5}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}),
    (100, {"region": "us"}, {"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}),
    (1000, {"region": "eu"}, None),
]
ALL = (4, 1111)


def test_report_is_one_line_for_the_files_and_one_for_each_condition() -> None:
    report = ScanReport(
        files=7,
        bytes_in_files=77,
        files_after_partitions=4,
        bytes_after_partitions=44,
        files_after_statistics=2,
        bytes_after_statistics=22,
        used=("id < 3",),
        unused=("length(name) = 1",),
    )
    assert str(report).splitlines() == [
        "2 of 7 files, 22 of 77 bytes (4 files after partitions)",
        "selects files: id < 3",
        "selects rows only: length(name) = 1",
    ]


@pytest.mark.parametrize(
    ("where", "totals", "partitions", "statistics"),
    [
        ("region = 'eu'", None, (3, 1011), (3, 1011)),
        ("id < 3", None, ALL, (3, 1101)),
        ("id < 3 and region = 'eu'", None, (3, 1011), (2, 1001)),
        ("length(name) = 1", None, ALL, ALL),
        ("id < 3 and region = 'eu'", (7, 7777), (3, 1011), (2, 1001)),
        ("id < 3", (7, 7777), (7, 7777), (3, 1101)),
    ],
)
def test_files_are_counted_after_partitions_and_after_statistics(
    spark: SparkSession, where: str, totals: Any, partitions: tuple[int, int], statistics: tuple[int, int]
) -> None:
    rows = [(size, values, None if stats is None else json.dumps(stats)) for size, values, stats in FILES]
    files = spark.createDataFrame(rows, "size bigint, partitionValues map<string, string>, stats string")
    found = report_of(files, skipping_of(where, columns()), totals)
    assert (found.files, found.bytes_in_files) == (totals or ALL)
    assert (found.files_after_partitions, found.bytes_after_partitions) == partitions
    assert (found.files_after_statistics, found.bytes_after_statistics) == statistics


@pytest.mark.parametrize(
    ("where", "skipped", "undecided", "reason"),
    [
        ("region = 'eu'", 1, 0, None),
        ("id < 3", 1, 1, None),
        ("id < 100", 0, 1, "every file may contain matching rows; 1 of 4 have no statistics that decide it"),
        ("region != 'x'", 0, 0, "every file may contain matching rows"),
        ("region = 'us' or id > 0", 0, 1, "every file may contain matching rows; 1 of 4"),
        ("x > 1", 0, 4, "no file has statistics that decide it"),
        ("length(name) = 1", None, 0, "partition values and statistics cannot decide it"),
    ],
)
def test_condition_that_skips_no_file_has_the_reason(
    spark: SparkSession, where: str, skipped: int | None, undecided: int, reason: str | None
) -> None:
    rows = [(size, values, None if stats is None else json.dumps(stats)) for size, values, stats in FILES]
    files = spark.createDataFrame(rows, "size bigint, partitionValues map<string, string>, stats string")
    part = skipping_of(where, columns())
    found, other = condition_reports(files, {where: part if part.used else None, "x": None})
    assert (found.text, found.files, found.skipped, found.undecided) == (where, 4, skipped, undecided)
    assert (reason or "") in str(found.reason)
    assert (found.reason is None) is (reason is None)
    assert (other.files, other.skipped) == (4, None)


def test_conditions_of_a_table_without_files_have_no_reason(spark: SparkSession) -> None:
    files = spark.createDataFrame([], "size bigint, partitionValues map<string, string>, stats string")
    (found,) = condition_reports(files, {"id < 3": skipping_of("id < 3", columns())})
    assert (found.files, found.skipped, found.undecided, found.reason) == (0, 0, 0, None)


@pytest.mark.parametrize(
    ("day", "stats", "deleted", "expected"),
    [
        ("2026-03-01", '{"numRecords":3}', None, 3),
        (None, '{"numRecords":3}', 2, 1),
        ("", '{"numRecords":3}', 3, 0),
        ("2026-03-01", '{"numRecords":3}', 4, None),
        ("2026-03-01", '{"numRecords":-1}', None, None),
        ("2026-03-01", '{"minValues":{"id":1}}', None, None),
        ("2026-03-01", None, 0, None),
        ("yesterday", '{"numRecords":3}', None, None),
    ],
)
def test_number_of_rows_is_stated_only_if_every_file_states_it_and_can_be_read(
    spark: SparkSession, day: str | None, stats: str | None, deleted: int | None, expected: int | None
) -> None:
    named = "partitionValues map<string, string>, stats string, deletionVector struct<cardinality: bigint>"
    values = {"region": "eu", "day": "2026-03-02"}
    rows = [
        (values, '{"numRecords":10}', None),
        ({**values, "day": day}, stats, None if deleted is None else (deleted,)),
    ]
    found = stated_count(spark.createDataFrame(rows, named), columns())
    assert found == (None if expected is None else 10 + expected)
    assert stated_count(spark.createDataFrame([], named), columns()) == 0


@pytest.mark.parametrize(
    ("where", "is_exact"),
    [
        ("region = 'eu'", True),
        ("region like '%u' or day is null", True),
        ("region = 'eu' and length(region) = 2", True),
        ("region = 'eu' and id > 1", False),
        ("region = 'eu' or id > 1", False),
        ("rand() > region", False),
        ("1 = 1", True),
    ],
)
def test_predicate_decides_whole_files_if_it_has_only_partition_columns(where: str, is_exact: bool) -> None:
    assert skipping_of(where, columns()).is_exact is is_exact


def test_statistics_read_as_values_take_precedence_over_those_in_json(spark: SparkSession) -> None:
    skipping = skipping_of("id < 3", columns())
    rows = [(size, values, None if stats is None else json.dumps(stats)) for size, values, stats in FILES]
    files = spark.createDataFrame(rows, "size bigint, partitionValues map<string, string>, stats string")
    assert [row.size for row in chosen_files(files, skipping).collect()] == [1, 100, 1000]
    assert chosen_files(files, skipping_of("length(name) = 1", columns())) is files
    other = f"from_json(replace(stats, '5', '1'), '{skipping.schema}')"
    parsed = files.selectExpr("*", f"if(size = 10, {other}, null) as {PARSED}")
    assert [row.size for row in chosen_files(parsed, skipping).collect()] == [1, 10, 100, 1000]


class Place:
    """A place in the text of a query; None: in a DataFrame, which has none."""

    def __init__(self, start: int | None) -> None:
        self.start = start

    def startIndex(self) -> int:  # noqa: N802  # Spark's name
        if self.start is None:
            raise PySparkException("no text")
        return self.start


@pytest.mark.parametrize(
    ("starts", "position"), [([0], 0), ([4], 4), ([5], None), ([-1], None), ([None, -1, 7, 2, 3], 2), ([], None)]
)
def test_error_of_spark_is_at_its_first_place_within_the_predicate(
    starts: list[int | None], position: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error: Any = PySparkException("wrong")
    monkeypatch.setattr(error, "getQueryContext", lambda: list(map(Place, starts)))
    assert _position("x = 1", error) == position
    assert _position("x = 1", ValueError("wrong")) is None
