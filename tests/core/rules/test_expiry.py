"""The tombstones that are kept, in SQL and in Arrow: one table of cases for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.rules.expiry import expiring, expiring_sql, kept_sql, unexpired

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
    assert expired(9, 5) == []
    assert expired(5, 5) == []


def test_conditions_are_sql_without_a_sentinel() -> None:
    assert (kept_sql(KEEP_ALL, "d"), kept_sql(Retention.after(5), "d")) == ("true", "d is null or d > 5")
    assert expiring_sql(Retention.after(5), Retention.after(9), "d") == "d > 5 and d <= 9"
    assert expiring_sql(KEEP_ALL, Retention.after(9), "d") == "d <= 9"
    not_later = (KEEP_ALL, Retention.after(9), Retention.after(5))
    assert {expiring_sql(Retention.after(9), retention, "d") for retention in not_later} == {"false"}


@pytest.mark.spark
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
