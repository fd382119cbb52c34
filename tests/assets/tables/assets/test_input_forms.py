"""The inputs of assets: rows and values of stored versions, in the annotated form, without Spark."""

from __future__ import annotations

import sys
import traceback
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.input_forms import given_as
from deltasnap_assets.tables.assets.io_manager import SnapshotIOManager
from deltasnap_assets.tables.assets.row_change_inputs import change_selection
from deltasnap_assets.tables.assets.row_inputs import StoredRows, row_selection
from deltasnap_core import DeltaLog, DeltaSnapError, LogSegment, ScanOptions, SnapshotState, SnapshotStore
from deltasnap_core.errors import StoredVersionNotFoundError
from tests.builders import add, metadata, protocol, remove, write_log
from tests.driver_bases import use_driver_bases

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


LATER = 10**13


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SnapshotIOManager:
    """A store with the versions 0 and 1 of the table `events`, whose log has version 2 too."""
    use_driver_bases(monkeypatch)
    second = [add("b", size=2), remove("z", deletion_timestamp=LATER)]
    write_log(tmp_path / "t", {0: [protocol(), metadata(), add("a", size=1)], 1: second, 2: [remove("a")]})
    store, log = SnapshotStore.open(None, tmp_path / "store"), DeltaLog.for_table(None, tmp_path / "t")
    store.write_range("events", log, 0, 1)
    table = TableSettings(name="events", path=str(tmp_path / "t"))
    snapshots: Any = SimpleNamespace(store=store, log=lambda _: log, table=lambda _: table)
    return SnapshotIOManager(snapshots)


def read(manager: SnapshotIOManager, name: str, *versions: int | str, kind: Any = Any) -> Any:
    context: Any = SimpleNamespace(
        asset_key=dg.AssetKey(["events", name]),
        definition_metadata={},
        asset_partition_keys=[f"{version}" for version in versions],
        dagster_type=SimpleNamespace(typing_type=kind),
    )
    return manager.load_input(context)


def test_one_version_is_a_value_and_several_are_a_dict(manager: SnapshotIOManager) -> None:
    state = read(manager, "computed_state", 1)
    assert isinstance(state, SnapshotState)
    assert state.num_of_files == 2
    assert {version: each.num_of_files for version, each in read(manager, "computed_state", 0, 1).items()} == {
        0: 1,
        1: 2,
    }


def test_log_segment_that_is_not_stored_is_read_from_the_log(manager: SnapshotIOManager) -> None:
    found = read(manager, "log_segment", 1, 2)
    assert all(isinstance(segment, LogSegment) for segment in found.values())
    assert {version: segment.version for version, segment in found.items()} == {1: 1, 2: 2}


def test_version_that_is_not_stored_is_an_error_with_advice(manager: SnapshotIOManager) -> None:
    with pytest.raises(StoredVersionNotFoundError) as raised:
        read(manager, "computed_state", 2)
    assert "that run has not ended, or it failed" in "".join(traceback.format_exception_only(raised.value))


def test_version_that_does_not_exist_is_an_error_with_the_newest_one(manager: SnapshotIOManager) -> None:
    with pytest.raises(StoredVersionNotFoundError) as raised:
        read(manager, "computed_state", 3)
    text = "".join(traceback.format_exception_only(raised.value))
    assert "Version 3 does not exist: the newest version in the log of events is 2." in text
    assert "has not ended" not in text


def test_input_with_a_partition_that_is_not_a_version_names_it_and_the_table(manager: SnapshotIOManager) -> None:
    with pytest.raises(DeltaSnapError, match="The partition 'made up' of the table events is not a version"):
        read(manager, "computed_state", 0, "made up")


def test_rows_of_a_version_are_an_arrow_table(manager: SnapshotIOManager) -> None:
    files = read(manager, "all_files", 1, kind=pa.Table)
    assert sorted(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)) == [("a", 1), ("b", 2)]
    assert read(manager, "tombstones", 1, kind=pa.Table)["path"].to_pylist() == ["z"]
    state = read(manager, "reconstructed_state", 0, kind=pa.Table)
    assert [name for name in ("add", "protocol", "metaData") if state[name].null_count < state.num_rows] == [
        "add",
        "protocol",
        "metaData",
    ]


@pytest.mark.parametrize(
    ("name", "method"), [("reconstructed_state", "state"), ("all_files", "all_files"), ("tombstones", "tombstones")]
)
def test_rows_of_a_version_are_a_frame_by_default(
    manager: SnapshotIOManager, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    monkeypatch.setattr(SnapshotStore, method, lambda store, table, version: (method, table, version.version))
    assert read(manager, name, 1) == (method, "events", 1)


def test_output_is_left_to_the_assets(manager: SnapshotIOManager) -> None:
    context: Any = None
    assert manager.handle_output(context, object()) is None  # type: ignore[func-returns-value]


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
