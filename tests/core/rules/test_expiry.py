"""The tombstones that are kept, in SQL and in Arrow: one table of cases for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.rules.expiry import expiring, expiring_sql, kept_sql, unexpired
from tests.plain_sql import evaluated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = [None, 0, 4, 5, 6, 9, 10]
UNTIL = (0, 4, 5, 9)


def kept(until: int) -> list[int | None]:
    rows = pa.table({"deleted_at": pa.array(TIMES, pa.int64())})
    found: list[int | None] = unexpired(rows, Retention.after(until))["deleted_at"].to_pylist()
    return found


def expired(before: int, after: int) -> list[int | None]:
    times = pa.chunked_array([pa.array(TIMES, pa.int64())])
    mask = expiring(times, Retention.after(before), Retention.after(after))
    found: list[int | None] = [] if mask is None else pc.filter(times, mask).to_pylist()
    return found


def test_tombstones_expire_at_their_time_and_live_files_never() -> None:
    assert kept(5) == [None, 6, 9, 10]
    assert kept(0) == TIMES


def test_tombstones_that_expire_between_two_retentions_are_found() -> None:
    assert expired(0, 5) == [0, 4, 5]
    assert expired(4, 9) == [5, 6, 9]
    assert expired(9, 5) == []
    assert expired(5, 5) == []


def chosen(condition: str) -> list[int | None]:
    return [time for time in TIMES if evaluated(condition, d=time)]


@pytest.mark.parametrize("until", UNTIL)
def test_sql_keeps_the_rows_that_arrow_keeps(until: int) -> None:
    assert chosen(kept_sql(Retention.after(until), "d")) == kept(until)


def test_sql_keeps_all_rows_without_a_retention() -> None:
    assert chosen(kept_sql(KEEP_ALL, "d")) == TIMES


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [
        (Retention.after(5), Retention.after(9), [6, 9]),
        (KEEP_ALL, Retention.after(5), [0, 4, 5]),
        (Retention.after(9), Retention.after(9), []),
        (Retention.after(9), Retention.after(5), []),
        (Retention.after(9), KEEP_ALL, []),
    ],
    ids=["later", "of all", "equal", "earlier", "all kept again"],
)
def test_sql_finds_the_tombstones_that_only_the_later_retention_lets_expire(
    before: Retention, after: Retention, times: list[int]
) -> None:
    assert chosen(expiring_sql(before, after, "d")) == times


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("until", UNTIL)
def test_sql_and_arrow_keep_the_same_rows(spark: SparkSession, until: int) -> None:
    rows = spark.createDataFrame(pa.table({"d": pa.array(TIMES, pa.int64())}))
    found = rows.where(kept_sql(Retention.after(until), "d")).collect()
    assert sorted((row.d for row in found), key=str) == sorted(kept(until), key=str)
    for after in UNTIL:
        gone = rows.where(expiring_sql(Retention.after(until), Retention.after(after), "d")).collect()
        among_kept = [time for time in expired(until, after) if time in kept(until)]
        assert sorted(row.d for row in gone) == among_kept
