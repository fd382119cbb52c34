"""Stores of the tests without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_core.store.snapshot_store import SnapshotStore
from deltasnap_core.store.versions.stored_table import StoredTable
from tests.core.store.manifests import log_store, store_versions, stored_table, table_log
from tests.driver_bases import use_driver_bases


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SnapshotStore:
    """A store whose bases the driver writes."""
    use_driver_bases(monkeypatch)
    return SnapshotStore.open(None, tmp_path / "store")


@pytest.fixture
def stored(tmp_path: Path) -> StoredTable:
    """A table with the versions 0 to 3, without data."""
    found = stored_table(tmp_path)
    store_versions(found, table_log(log_store(range(4))), range(4))
    return found
