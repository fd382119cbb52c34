from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.row_change_inputs import change_selection
from deltasnap_assets.tables.assets.row_inputs import StoredRows, row_selection
from deltasnap_core import DeltaSnapError, ScanOptions


def test_input_without_rows_loads_the_asset_itself() -> None:
    assert row_selection({}, "events/all_files", "all_files") is None
    assert row_selection({"rows": False, "other": 1}, "events/tombstones", "tombstones") is None


def test_rows_can_be_filtered_and_columns_selected() -> None:
    assert row_selection({"rows": True}, "a", "all_files") == (None, None)
    metadata = {"rows": True, "where": "x > 1", "columns": ["x", "y.z"]}
    assert row_selection(metadata, "a", "all_files") == ("x > 1", ("x", "y.z"))


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "condition without rows": ({"where": "x"}, "all_files", "expected True, because 'where' is set"),
    "columns without rows": ({"columns": ["x"], "rows": False}, "all_files", "expected True, because 'columns' is set"),
    "rows of another asset": ({"rows": True}, "tombstones", "expected an input of all_files, found 'tombstones'"),
    "rows is text": ({"rows": "yes"}, "all_files", "expected True or False, found 'yes'"),
    "condition is not text": ({"rows": True, "where": 1}, "all_files", "expected a condition in SQL, found 1"),
    "columns is text": ({"rows": True, "columns": "x"}, "all_files", "expected a list of names, found 'x'"),
    "no columns": ({"rows": True, "columns": []}, "all_files", "expected a list of names"),
    "column is not text": ({"rows": True, "columns": [1]}, "all_files", "expected a list of names"),
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_metadata_is_an_error_that_names_input_and_key(case: str) -> None:
    metadata, name, reported = WRONG[case]
    with pytest.raises(DeltaSnapError, match="Input events/x: metadata") as error:
        row_selection(metadata, "events/x", name)
    assert reported in str(error.value)


def test_rows_are_scanned_in_the_store_with_the_options_of_the_table() -> None:
    asked: list[Any] = []

    def scan(*place: object, **options: object) -> Any:
        asked.append((place, options))
        return SimpleNamespace(to_df=lambda: "frame", to_arrow=lambda: "arrow")

    snapshots: Any = SimpleNamespace(
        table=lambda _: TableSettings(name="events", path="/lake/events", storage_options={"a": 1}),
        store=SimpleNamespace(scan=scan),
    )
    manifest: Any = object()
    rows = StoredRows(snapshots, "events", manifest, "x > 1", ("x",))
    found: list[Any] = [rows.value(), rows.arrow()]
    assert found == ["frame", "arrow"]
    assert asked == [(("events", manifest, "x > 1", ("x",)), {"options": ScanOptions(storage_options={"a": 1})})] * 2


def test_row_changes_have_the_options_of_their_query() -> None:
    assert change_selection({"rows": True, "where": "x"}, "a", "all_files") is None
    found = change_selection({"row_changes": "of_version"}, "a", "all_files")
    assert found == ("of_version", {"key": None, "net": False, "where": None, "columns": None})
    metadata = {"row_changes": "since_last_run", "key": "id", "net": True, "where": "x > 1", "columns": ["x"]}
    options = {"key": ("id",), "net": True, "where": "x > 1", "columns": ("x",)}
    assert change_selection(metadata, "a", "all_files") == ("since_last_run", options)


WRONG_CHANGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "key without changes": ({"key": ["id"]}, "all_files", "'since_last_run' or 'of_version', because 'key' is set"),
    "net with rows": ({"rows": True, "net": True}, "all_files", "because 'net' is set, found None"),
    "another word": ({"row_changes": "today"}, "all_files", "expected 'since_last_run' or 'of_version', found 'today'"),
    "true": ({"row_changes": True}, "all_files", "expected 'since_last_run' or 'of_version', found True"),
    "rows too": ({"row_changes": "of_version", "rows": True}, "all_files", "because 'row_changes' is set, found True"),
    "another asset": ({"row_changes": "of_version"}, "tombstones", "expected an input of all_files"),
    "net is text": ({"row_changes": "of_version", "net": "x"}, "all_files", "expected True or False, found 'x'"),
    "empty key": ({"row_changes": "of_version", "key": ""}, "all_files", "'key': expected a list of names, found ''"),
    "misspelled key": (
        {"row_changes": "of_version", "dagster/uri": "x", "colums": ["id"]},
        "all_files",
        "metadata 'colums': expected one of the keys row_changes, key, net, where, columns, found 'colums'",
    ),
    "condition is not text": ({"row_changes": "of_version", "where": 1}, "all_files", "expected a condition in SQL"),
}


@pytest.mark.parametrize("case", WRONG_CHANGES)
def test_invalid_metadata_of_row_changes_is_an_error(case: str) -> None:
    metadata, name, reported = WRONG_CHANGES[case]
    with pytest.raises(DeltaSnapError, match="Input events/x: metadata") as error:
        change_selection(metadata, "events/x", name)
    assert reported in str(error.value)


def test_misspelled_key_of_a_rows_input_is_an_error() -> None:
    with pytest.raises(DeltaSnapError, match="expected one of the keys rows, where, columns, found 'colums'"):
        row_selection({"rows": True, "colums": ["id"]}, "events/x", "all_files")
