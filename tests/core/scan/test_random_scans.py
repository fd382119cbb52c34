"""Random predicates on random tables: a scan gives the rows of the whole table filtered, and loses no file."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.scan.bounds import partition_value
from deltasnap_core.scan.planning import condition_on_files
from deltasnap_core.scan.skipping import skipping_of
from deltasnap_core.scan.table_columns import TableColumns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TABLES = int(os.environ.get("DELTASNAP_SCAN_TABLES", "2"))
PREDICATES = int(os.environ.get("DELTASNAP_SCAN_PREDICATES", "100"))
SCANS = 4

DAYS = [date(2026, 1, 1) + timedelta(days=day) for day in range(3)]
TIMES = [
    datetime(2026, 1, 1, 23, 59, 59, 999_999, UTC) + timedelta(microseconds=step)
    for step in (0, 1, 400, 999, 1_000, 1_001, 3_600_000_000, -(10**16))
]
TEXTS = ["", "a", "ab", "abc", "b", "ü", "z" * 40, "z" * 40 + "y", "\U0001f600", "A'b", "x%y"]
NUMBERS = [-3, -1, 0, 1, 2, 5, 2**53 + 1, -(2**62)]
FLOATS = [float("nan"), float("inf"), -0.0, 0.0, 0.1, 1.5, -2.25, 1e300]
DECIMALS = [Decimal(text) for text in ("0.00", "-1.25", "12345678901234567.89", "12345678901234567.88", "3.10")]
SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("us")),
        ("on_day", pa.date32()),
        ("amount", pa.decimal128(20, 2)),
        ("flag", pa.bool_()),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("day", pa.date32()),
        ("region", pa.string()),
        ("n", pa.int32()),
    ]
)


def maybe(rng: random.Random, value: Any, nulls: float) -> Any:
    return None if rng.random() < nulls else value


def random_rows(rng: random.Random, batch: int) -> pa.Table:
    """A few rows of few values, each column of a share of nulls of its own, often all or none."""
    nulls = {field.name: rng.choice([0, 0, 0.3, 1]) for field in SCHEMA}
    choices: dict[str, list[Any]] = {
        "id": NUMBERS, "small": [-2, 0, 7], "x": FLOATS, "f": [0.1, 1.5, float("nan")], "name": TEXTS, "at": TIMES,
        "wall": [time.replace(tzinfo=None) for time in TIMES], "on_day": DAYS, "amount": DECIMALS,
        "flag": [True, False], "day": DAYS, "region": ["eu", "us", "a b/ü%"], "n": [1, 2, 30],
    }  # fmt: skip
    one_of = {name: rng.sample(values, min(len(values), rng.choice([1, 2, 3]))) for name, values in choices.items()}
    rows = []
    for _ in range(rng.randint(1, 5)):
        row = {name: maybe(rng, rng.choice(values), nulls[name]) for name, values in one_of.items()}
        struct = {"a": maybe(rng, rng.randint(-2, 2), 0.3), "b": maybe(rng, rng.choice(TEXTS), 0.3)}
        rows.append({**row, "batch": batch, "s": maybe(rng, struct, nulls["s"])})
    return pa.Table.from_pylist(rows, SCHEMA)


def random_table(rng: random.Random, path: Path) -> Path:
    from deltalake import write_deltalake

    for batch in range(rng.randint(4, 9)):
        write_deltalake(path, random_rows(rng, batch), mode="append", partition_by=["day", "region", "n"])
    return path


def constant(rng: random.Random, column: str) -> str:
    if rng.random() < 0.05:
        return "null"
    match column:
        case "id" | "small" | "s.a" | "n":
            return rng.choice(["0", "1", "-1", "2.5", "5", "9007199254740993L", "-3", "1e0", "30"])
        case "x" | "f":
            return rng.choice(["0", "0.1", "1.5", "-2.25D", "1e300", "0.1D", "-0.0D"])
        case "amount":
            return rng.choice(["0", "3.1", "12345678901234567.89", "12345678901234567.885", "-1.25"])
        case "name" | "s.b" | "region":
            return rng.choice(["''", "'a'", "'ab'", "'abcd'", f"'{'z' * 33}'", f"'{'z' * 41}'", "'ü'", "'eu'", "'x%y'"])
        case "day" | "on_day":
            return rng.choice(["'2026-01-01'", "date'2026-01-02'", "'2026-01-03'", "timestamp'2026-01-02 00:00:00'"])
        case "wall":
            return rng.choice(["'2026-01-01 23:59:59.999999'", "timestamp_ntz'2026-01-02 00:00:00.0004'"])
        case "at":
            return rng.choice(
                ["'2026-01-01 23:59:59.999999'", "timestamp'2026-01-02 00:00:00.000399Z'", "'2026-01-02 00:00:00.001'"]
            )
    return rng.choice(["true", "false"])


COLUMNS = [
    "id",
    "small",
    "x",
    "f",
    "name",
    "at",
    "wall",
    "on_day",
    "amount",
    "flag",
    "s.a",
    "s.b",
    "day",
    "region",
    "n",
]


def random_atom(rng: random.Random) -> str:
    column = rng.choice(COLUMNS)
    kind = rng.random()
    if kind < 0.5:
        sides = [column, constant(rng, column)]
        rng.shuffle(sides)
        return f"{sides[0]} {rng.choice(['=', '<=>', '!=', '<>', '<', '<=', '>', '>='])} {sides[1]}"
    if kind < 0.6:
        items = ", ".join(constant(rng, column) for _ in range(rng.randint(1, 3)))
        return f"{column} {rng.choice(['in', 'not in'])} ({items})"
    if kind < 0.7:
        return f"{column} {rng.choice(['', 'not '])}between {constant(rng, column)} and {constant(rng, column)}"
    if kind < 0.8:
        return f"{column} is {rng.choice(['', 'not '])}null"
    if kind < 0.9:
        text = rng.choice(["name", "s.b", "region"])
        pattern = rng.choice(["a%", "%b", "ab_", "z%", "zzz%y", "", "eu", "e%u", "ü%"])
        return f"{text} {rng.choice(['', 'not '])}like '{pattern}'"
    return rng.choice(
        ["flag", "flag is not true", "cast(at as date) = '2026-01-02'", "to_date(wall) <= '2026-01-01'",
         "cast(small as bigint) > 0", "upper(region) = 'EU'", "length(name) > 3", "n + 1 = 3",
         "cast(f as double) > 0.1", "cast(x as int) is not null and x < 2",
         "startswith(name, 'a')", "coalesce(n, 0) < 2"]
    )  # fmt: skip


def random_predicate(rng: random.Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.35:
        return random_atom(rng)
    if rng.random() < 0.25:
        return f"not ({random_predicate(rng, depth - 1)})"
    word = rng.choice(["and", "or"])
    return f"({random_predicate(rng, depth - 1)}) {word} {random_predicate(rng, depth - 1)}"


def row_texts(rows: DataFrame) -> Counter[str]:
    return Counter(rows.select(F.to_json(F.struct("*")).alias("row")).toArrow()["row"].to_pylist())


@pytest.fixture(params=range(TABLES))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


@pytest.fixture
def lenient(spark: SparkSession, interpreted: None) -> Iterator[SparkSession]:
    """A session in which what cannot be cast is null: else predicates must be written with more care than these."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


FILE = ("batch", "day", "region", "n")
"""What tells the files of a random table apart."""


def test_no_file_with_a_row_that_matches_is_left_out(lenient: SparkSession, tmp_path: Path, rng: random.Random) -> None:
    snapshot = DeltaLog.for_table(lenient, random_table(rng, tmp_path / "events")).snapshot
    columns = TableColumns(snapshot.metadata)
    values = [partition_value(column) for column in columns.partition]
    files = snapshot.all_files.selectExpr("*", "get_json_object(stats, '$.minValues.batch') as batch").cache()
    whole = snapshot.scan().to_df().cache()
    skipped = wanted = 0
    for begin in range(0, PREDICATES, 25):
        predicates = [random_predicate(rng) for _ in range(begin, min(begin + 25, PREDICATES))]
        kept = [condition_on_files(skipping_of(where, columns)) or "true" for where in predicates]
        names = [f"p{number}" for number in range(len(predicates))]
        chosen = files.selectExpr(
            "cast(batch as bigint) as batch",
            *(f"{value} as {name}" for value, name in zip(values, FILE[1:], strict=True)),
            *(f"{condition} as {name}" for condition, name in zip(kept, names, strict=True)),
        )
        matching = whole.groupBy(*FILE).agg(
            *(F.expr(f"bool_or(coalesce({where}, false))").alias(n) for where, n in zip(predicates, names, strict=True))
        )
        by_file = {tuple(row[:4]): row for row in chosen.collect()}
        for row in matching.collect():
            for name, where, condition in zip(names, predicates, kept, strict=True):
                assert by_file[tuple(row[:4])][name] or not row[name], f"{where}: {row[:4]} is lost by {condition}"
                skipped += not by_file[tuple(row[:4])][name]
                wanted += row[name]
    assert skipped > wanted / 10
    whole.unpersist()
    files.unpersist()


def test_scan_gives_the_rows_of_the_whole_table_filtered(
    lenient: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    table = random_table(rng, tmp_path / "events")
    log = DeltaLog.for_table(lenient, table)
    snapshot = log.snapshot
    store = SnapshotStore.open(lenient, tmp_path / "store")
    store.write_range("events", log, snapshot.version, snapshot.version)
    whole = snapshot.scan().to_df().cache()
    assert whole.count() == snapshot.computed_state.num_records
    for number in range(SCANS):
        where = random_predicate(rng)
        if number == SCANS - 1:
            shutil.rmtree(table / "_delta_log")
            scan = store.scan("events", snapshot.version, where)
        else:
            scan = snapshot.scan(where)
        assert row_texts(scan.to_df()) == row_texts(whole.where(where)), where
    whole.unpersist()
