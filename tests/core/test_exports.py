"""The API: names that a package exports, which are loaded on first use, and the defaults of arguments."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

import deltasnap_assets
import deltasnap_core
from deltasnap_core import support
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.scan.tables.metadata_tables import MetadataTables
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.store.snapshot_store import SnapshotStore


@pytest.mark.parametrize("package", [deltasnap_core, support, deltasnap_assets], ids=lambda package: package.__name__)
def test_every_exported_name_can_be_loaded(package: ModuleType) -> None:
    missing = [name for name in package.__all__ if getattr(package, name, None) is None]
    assert missing == []
    assert {*package.__all__} <= {*dir(package)}
    assert not hasattr(package, "no_such_name")


def test_public_names_of_the_core_are_few() -> None:
    assert len(vars(deltasnap_core)["__all__"]) <= 50


DEFAULTS: dict[object, dict[str, object]] = {
    DeltaLog.update: {"staleness_acceptable": False},
    DeltaLog.get_snapshot_at: {"can_return_last_commit": False, "can_return_earliest_commit": False},
    DeltaHistoryManager.check_version_exists: {"must_be_recreatable": True, "allow_out_of_range": False},
    DeltaHistoryManager.get_active_commit_at_time: {
        "can_return_last_commit": False,
        "must_be_recreatable": True,
        "can_return_earliest_commit": False,
    },
    MetadataTables.vacuum_candidates: {"list_files": False},
    SnapshotOptions: {
        "load_stats": True,
        "check_pages": False,
        "cache_state": True,
        "engine": "auto",
        "cached_counts_from": 50_000,
    },
    SnapshotStore.open: {"engine": "auto", "check_pages": False},
    SnapshotStore.fleet: {"keep": False},
    SnapshotStore.prune: {"keep_generations": 1, "min_age_ms": 24 * 3_600_000},
    SnapshotStore.read_arrow: {"kind": "all_files"},
    SnapshotStore.write_range: {"materialize_as": "view"},
    SnapshotStore.write_versions: {"materialize_as": "view"},
    TableLog.condition: {"read_pages": True},
    TableLog.list: {"first": 0},
}


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda function: function.__qualname__)
def test_arguments_of_the_api_keep_their_defaults(function: Any) -> None:
    parameters = inspect.signature(function).parameters.values()
    found = {each.name: each.default for each in parameters if isinstance(each.default, bool | int | str)}
    assert found == DEFAULTS[function]
