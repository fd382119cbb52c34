"""The inputs of assets, read from stored versions without Spark."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.assets.io_manager import SnapshotIOManager
from deltasnap_core import (
    DeltaLog,
    DeltaSnapError,
    LogSegment,
    SnapshotState,
    SnapshotStore,
)
from deltasnap_core.errors import StoredVersionNotFoundError
from tests.builders import add, metadata, protocol, remove, write_log
from tests.driver_bases import use_driver_bases

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
