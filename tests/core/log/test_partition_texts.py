"""Partition values of many files: which there are, and which row has which."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltasnap_core.log import partition_texts
from deltasnap_core.log.partition_texts import CodedPartitions, coded, columns_of_maps, joined

Map = list[tuple[str, str | None]]


def maps_of(*rows: Map | None) -> pa.MapArray:
    """Maps as Parquet gives them where its columns are read as dictionaries."""
    entries = [entry for row in rows for entry in row or []]
    offsets = pa.array([sum(len(row or []) for row in rows[:end]) for end in range(len(rows) + 1)], pa.int32())
    keys = pa.array([key for key, _ in entries], pa.string()).dictionary_encode()
    items = pa.array([item for _, item in entries], pa.string()).dictionary_encode()
    return pa.MapArray.from_arrays(offsets, keys, items, mask=pa.array([row is None for row in rows]))


def texts_of(found: CodedPartitions) -> list[tuple[str | None, ...]]:
    return [found.texts[code] for code in found.codes]


def rows_of(maps: pa.MapArray, *names: str) -> list[tuple[str | None, ...]]:
    return texts_of(coded(columns_of_maps(maps, names), len(maps)))


def test_value_of_each_row_is_found_by_name_and_null_where_there_is_none() -> None:
    maps = maps_of([("x", "1"), ("y", "2")], None, [], [("y", None)], [("y", "3"), ("x", "1")])
    assert rows_of(maps, "y", "x") == [("2", "1"), (None, None), (None, None), (None, None), ("3", "1")]
    assert rows_of(maps, "z") == [(None,)] * 5
    assert rows_of(maps) == [()] * 5


def test_first_of_two_values_of_a_name_counts() -> None:
    assert rows_of(maps_of([("x", "1"), ("x", "2")]), "x") == [("1",)]


def test_rows_of_a_slice_are_its_own() -> None:
    assert rows_of(maps_of([("x", "1")], None, [("x", "2")], [("x", "3")]).slice(2), "x") == [("2",), ("3",)]


def test_empty_text_is_no_null() -> None:
    assert rows_of(maps_of([("x", "")], [("x", None)]), "x") == [("",), (None,)]


def test_each_value_is_there_once_also_where_values_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Map] = [[("x", str(n % 7)), ("y", str(n % 3))] for n in range(100)]
    maps = maps_of(*rows)
    few = coded(columns_of_maps(maps, ["x", "y"]), 100)
    monkeypatch.setattr(partition_texts, "_MOST_TO_COUNT", 4)
    many = coded(columns_of_maps(maps, ["x", "y"]), 100)
    assert len(few.texts) == len(set(few.texts)) == 21
    assert texts_of(few) == texts_of(many)


def test_rows_of_parts_follow_one_another() -> None:
    parts = [coded(columns_of_maps(maps_of([("x", value)] * 2), ["x"]), 2) for value in "aba"]
    found = joined(parts)
    assert found.texts == (("a",), ("b",))
    assert texts_of(found) == [("a",), ("a",), ("b",), ("b",), ("a",), ("a",)]
    assert found.among({("b",)}).tolist() == [False, False, True, True, False, False]
    assert texts_of(joined([])) == []


@pytest.mark.parametrize("damaged", ["keys", "items"])
def test_place_that_no_dictionary_has_is_an_error(damaged: str) -> None:
    good = pa.array(["x"]).dictionary_encode()
    bad = pa.DictionaryArray.from_arrays(pa.array([32], pa.int32()), good.dictionary, safe=False)
    keys, items = (bad, good) if damaged == "keys" else (good, bad)
    maps = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), keys, items)
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        list(columns_of_maps(maps, ["x"]))
