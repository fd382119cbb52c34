"""File actions as Python values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltasnap_core.rules.file_actions import FULL_ACTION, check_one_action, fitted, values_of

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
