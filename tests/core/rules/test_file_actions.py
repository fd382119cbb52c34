"""File actions as Python values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltasnap_core.rules.file_actions import FULL_ACTION, fitted, values_of

TWICE = [("p", "x"), ("q", "z"), ("p", "y")]


def test_the_first_value_of_a_key_that_a_map_has_twice_counts() -> None:
    rows = [{"add": {"path": "a", "partitionValues": TWICE}}, {"remove": {"path": "b"}}]
    first, second = values_of(pa.Table.from_pylist(rows, schema=FULL_ACTION))
    assert first["add"]["partitionValues"] == {"p": "x", "q": "z"}
    assert (first["remove"], second["add"], second["remove"]["partitionValues"]) == (None, None, None)


def test_maps_are_dicts() -> None:
    rows = [{"add": {"path": "a", "partitionValues": {"p": None}}}]
    (found,) = values_of(pa.Table.from_pylist(rows, schema=FULL_ACTION))
    assert (found["add"]["partitionValues"], found["add"]["tags"]) == ({"p": None}, None)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_texts_of_every_kind_become_strings(kind: pa.DataType) -> None:
    assert fitted(pa.array(["a", None], pa.string()).cast(kind), pa.string()) == pa.array(["a", None], pa.string())
