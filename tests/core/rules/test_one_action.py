from __future__ import annotations

import pyarrow as pa
import pytest

from deltasnap_core.rules.file_actions import check_one_action


def paths(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def test_row_contains_an_add_or_a_remove_or_neither() -> None:
    check_one_action(paths("a", None, None), paths(None, "b", None))
    check_one_action(paths("a", "b"), paths(None, None))
    check_one_action(paths("a"), None)
    with pytest.raises(ValueError, match="at most one action in a row"):
        check_one_action(paths(None, "a", None), paths("b", "a", None))
