from __future__ import annotations

import typing
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltasnap_assets.tables.assets.input_forms import InputTypeError, given_as

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


def test_one_frame_for_several_versions_is_rejected_with_the_right_annotation() -> None:
    expected = r"of one version, found 2; use the annotation dict\[int, pandas.DataFrame\]"
    with pytest.raises(InputTypeError, match=expected):
        files(pd.DataFrame, 3, 4)


def test_annotation_is_reported_without_the_names_of_typing() -> None:
    old_name: Any = typing.Dict  # noqa: UP006
    with pytest.raises(InputTypeError, match=r"dict\[int, str\]") as raised:
        files(old_name[int, str], 3)
    assert "typing" not in str(raised.value)
    assert "Dict" not in str(raised.value)


def test_one_frame_without_any_version_is_rejected_with_advice() -> None:
    with pytest.raises(InputTypeError, match=r"has none yet; .*`deltasnap refresh` materializes versions"):
        files(pd.DataFrame)


@pytest.mark.parametrize("wanted", [int, list[int], dict[str, pa.Table], dict[int, str], pd.Series], ids=str)
def test_other_types_are_rejected_before_anything_is_loaded(wanted: object) -> None:
    with pytest.raises(InputTypeError, match=r"expected pyspark.sql.DataFrame, pyarrow.Table"):
        given_as(wanted, "events/all_files", "all_files", {1: Unread()})
