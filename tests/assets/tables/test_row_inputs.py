from __future__ import annotations

from typing import Any

import pytest

from deltasnap_assets.tables.assets.row_inputs import InputMetadataError, RowSelection, row_selection


def test_input_without_rows_is_the_asset_itself() -> None:
    assert row_selection({}, "events/all_files", "all_files") is None
    assert row_selection({"rows": False, "other": 1}, "events/tombstones", "tombstones") is None


def test_rows_can_be_filtered_and_columns_selected() -> None:
    assert row_selection({"rows": True}, "a", "all_files") == RowSelection()
    metadata = {"rows": True, "where": "x > 1", "columns": ["x", "y.z"]}
    assert row_selection(metadata, "a", "all_files") == RowSelection(where="x > 1", columns=("x", "y.z"))


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "condition without rows": ({"where": "x"}, "all_files", "expected True, because 'where' is set"),
    "columns without rows": ({"columns": ["x"], "rows": False}, "all_files", "expected True, because 'columns' is set"),
    "rows of another asset": ({"rows": True}, "tombstones", "expected an input of all_files, found 'tombstones'"),
    "rows is text": ({"rows": "yes"}, "all_files", "expected True or False, found 'yes'"),
    "condition is no text": ({"rows": True, "where": 1}, "all_files", "expected a condition in SQL, found 1"),
    "columns is text": ({"rows": True, "columns": "x"}, "all_files", "expected a list of names, found 'x'"),
    "no columns": ({"rows": True, "columns": []}, "all_files", "expected a list of names"),
    "column is no text": ({"rows": True, "columns": [1]}, "all_files", "expected a list of names"),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_metadata_is_an_error_that_names_input_and_key(case: str) -> None:
    metadata, name, told = WRONG[case]
    with pytest.raises(InputMetadataError, match="Input events/x: metadata") as error:
        row_selection(metadata, "events/x", name)
    assert told in str(error.value)
