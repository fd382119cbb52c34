"""File actions as Python values, and the tombstones that are kept, in SQL and in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.rules.expiry import expiring, expiring_sql, kept_sql, unexpired
from deltasnap_core.rules.file_actions import FULL_ACTION, check_one_action, fitted, values_of
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
def test_sql_finds_tombstones_that_a_later_retention_drops(
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


TWICE = [("p", "x"), ("q", "z"), ("p", "y")]


def test_the_first_value_of_a_key_that_a_map_has_twice_counts() -> None:
    rows = [{"add": {"path": "a", "partitionValues": TWICE}}, {"remove": {"path": "b"}}]
    first, second = values_of(pa.Table.from_pylist(rows, schema=FULL_ACTION))
    assert (first["add"]["path"], first["add"]["partitionValues"]) == ("a", {"p": "x", "q": "z"})
    assert (first["remove"], second["add"], second["remove"]["path"]) == (None, None, "b")
    assert second["remove"]["partitionValues"] is None


def test_maps_are_dicts() -> None:
    rows = [{"add": {"path": "a", "partitionValues": {"p": None}}}]
    (found,) = values_of(pa.Table.from_pylist(rows, schema=FULL_ACTION))
    assert (found["add"]["partitionValues"], found["add"]["tags"]) == ({"p": None}, None)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_texts_of_every_kind_become_strings(kind: pa.DataType) -> None:
    assert fitted(pa.array(["a", None], pa.string()).cast(kind), pa.string()) == pa.array(["a", None], pa.string())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1.0]), pa.int64()),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([True]), pa.int64()),
        (pa.array([{"a": 1}]), pa.string()),
    ],
    ids=["float", "text", "number", "boolean", "struct"],
)
def test_values_of_another_type_are_not_converted(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowTypeError, match=f"expected {kind}"):
        fitted(values, kind)


def test_fields_that_a_struct_lacks_are_null() -> None:
    wanted = pa.struct([("a", pa.int64()), ("b", pa.string())])
    found = fitted(pa.array([{"a": 1}, None], pa.struct([("a", pa.int32())])), wanted)
    assert (found.type, found.to_pylist()) == (wanted, [{"a": 1, "b": None}, None])


def paths(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def test_row_contains_an_add_or_a_remove_or_neither() -> None:
    check_one_action(paths("a", None, None), paths(None, "b", None))
    check_one_action(paths("a", "b"), paths(None, None))
    check_one_action(paths("a"), None)
    with pytest.raises(ValueError, match="at most one action in a row"):
        check_one_action(paths(None, "a", None), paths("b", "a", None))
