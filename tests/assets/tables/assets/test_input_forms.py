from __future__ import annotations

import sys
import typing
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltasnap_assets.tables.assets.input_forms import given_as
from deltasnap_core import DeltaSnapError, LogSegment, SnapshotState

FRAME = object()
"""Stands for a DataFrame of Spark."""


class Stored:
    """A stored version with one row."""

    def value(self) -> Any:
        return FRAME

    def arrow(self) -> pa.Table:
        return pa.table({"size": [1]})


class Unread:
    """A stored version that must not be read."""

    def value(self) -> Any:
        raise AssertionError

    def arrow(self) -> pa.Table:
        raise AssertionError


def files(wanted: object, *versions: int) -> Any:
    return given_as(wanted, "events/all_files", "all_files", {version: Stored() for version in versions})


def test_without_an_annotation_one_version_is_a_frame_and_several_are_a_dict() -> None:
    assert files(Any, 3) is FRAME
    assert files(Any, 3, 4) == {3: FRAME, 4: FRAME}
    assert files(Any) == {}


def test_dict_annotation_works_for_any_number_of_versions() -> None:
    assert files(dict, 3) == {3: FRAME}
    assert list(files(dict[int, pa.Table], 3, 4).values()) == [pa.table({"size": [1]})] * 2
    assert isinstance(files(dict[int, pd.DataFrame], 3)[3], pd.DataFrame)


def test_annotation_names_the_library_that_gets_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = SimpleNamespace(from_arrow=lambda rows: ("polars", rows.to_pylist()))
    monkeypatch.setitem(sys.modules, "polars", polars)
    frames = {name: type("DataFrame", (), {"__module__": name}) for name in ("polars.dataframe", "pyspark.sql")}
    assert files(frames["polars.dataframe"], 3) == ("polars", [{"size": 1}])
    assert files(frames["pyspark.sql"], 3) is FRAME
    assert files(pa.Table, 3) == pa.table({"size": [1]})
    maps = pa.table({"m": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))})
    monkeypatch.setattr(Stored, "arrow", lambda _: maps)
    assert files(pd.DataFrame, 3)["m"].tolist() == [{"a": 2}]


def test_integers_with_nulls_are_exact_in_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    large = 2**53 + 1  # a float is 2**53
    columns = [[large, None], [large, 1], [{"n": large}, {"n": None}], [[large, None], []]]
    monkeypatch.setattr(Stored, "arrow", lambda _: pa.table(columns, ["n", "n", "struct", "list"]))
    found = files(pd.DataFrame, 3)
    assert list(map(str, found.dtypes)) == ["Int64", "int64", "object", "object"]
    assert found.iloc[:, 0].tolist() == [large, pd.NA]
    assert found["struct"].tolist() == [{"n": large}, {"n": None}]
    assert found["list"][0].tolist() == [large, None]


@pytest.mark.parametrize("wanted", [None, object, Any, LogSegment])
def test_value_is_loaded_as_its_own_type(wanted: object) -> None:
    assert given_as(wanted, "events/log_segment", "log_segment", {3: Stored()}) is FRAME
    several: Any = dict[int, LogSegment]
    assert given_as(several, "events/log_segment", "log_segment", {3: Stored(), 4: Stored()}) == {3: FRAME, 4: FRAME}
    with pytest.raises(DeltaSnapError) as raised:
        given_as(SnapshotState, "events/log_segment", "log_segment", {3: Unread()})
    assert str(raised.value) == (
        "events/log_segment cannot be loaded as SnapshotState: expected LogSegment, or dict[int, ...] of it for "
        "several versions."
    )


def test_types_of_rows_are_all_named() -> None:
    with pytest.raises(DeltaSnapError) as raised:
        files(LogSegment, 3)
    assert str(raised.value).endswith(
        ": expected pyspark.sql.DataFrame, pyarrow.Table, pandas.DataFrame, polars.DataFrame, or dict[int, ...] of one "
        "of them for several versions."
    )


def test_one_frame_for_several_versions_is_rejected_with_the_right_annotation() -> None:
    expected = r"of one version, found 2; use the annotation dict\[int, pandas.DataFrame\]"
    with pytest.raises(DeltaSnapError, match=expected):
        files(pd.DataFrame, 3, 4)


def test_annotation_is_reported_without_the_names_of_typing() -> None:
    old_name: Any = typing.Dict  # noqa: UP006
    with pytest.raises(DeltaSnapError, match=r"dict\[int, str\]") as raised:
        files(old_name[int, str], 3)
    assert "typing" not in str(raised.value)
    assert "Dict" not in str(raised.value)


def test_one_frame_without_any_version_is_rejected_with_advice() -> None:
    with pytest.raises(DeltaSnapError, match=r"has none yet; .*the job `refresh_all_tables` materializes versions"):
        files(pd.DataFrame)


@pytest.mark.parametrize("wanted", [int, list[int], dict[str, pa.Table], dict[int, str], pd.Series], ids=str)
def test_other_types_are_rejected_before_anything_is_loaded(wanted: object) -> None:
    with pytest.raises(DeltaSnapError, match=r"expected pyspark.sql.DataFrame, pyarrow.Table"):
        given_as(wanted, "events/all_files", "all_files", {1: Unread()})
