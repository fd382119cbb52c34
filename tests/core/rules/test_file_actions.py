"""File actions as Python values."""

from __future__ import annotations

import pyarrow as pa

from deltasnap_core.rules.file_actions import FULL_ACTION, values_of

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
