"""Invalid arguments of the store, and stores without versions. Nothing is read or written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core import ScanOptions, SnapshotStore
from deltasnap_core.errors import StoredVersionNotFoundError
from deltasnap_core.protocol.actions import Metadata

NO_LOG: Any = None
INVALID: dict[str, tuple[Callable[[SnapshotStore], object], str]] = {
    "changes of a reversed range": (lambda store: store.row_changes("t", 3, 2), "first <= last, found 3 and 2"),
    "changes since a later version": (lambda store: store.row_changes_since("t", 3, 2), "since <= last, found 3 and 2"),
    "a reversed range": (lambda store: store.write_range("t", NO_LOG, 3, 2), "first <= last, found 3 and 2"),
    "no versions": (lambda store: store.write_versions("t", NO_LOG, []), "at least one version, found none"),
    "another form": (
        lambda store: store.write_versions("t", NO_LOG, [0], materialize_as="json"),  # type: ignore[arg-type]
        "'view' or 'table', found 'json'",
    ),
    "a negative version": (lambda store: store.write_range("t", NO_LOG, -1, 2), "-1"),
    "changes of files since a negative version": (lambda store: store.file_changes("t", -1, 2), "-1"),
    "changes of files up to a negative version": (lambda store: store.file_changes("t", 2, -1), "-1"),
}


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore.open(None, tmp_path / "store")


@pytest.mark.parametrize("case", INVALID)
def test_invalid_argument_is_a_value_error_with_what_was_found(case: str, store: SnapshotStore, tmp_path: Path) -> None:
    ask, found = INVALID[case]
    with pytest.raises(ValueError, match=found):
        ask(store)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.manifest("t", 0),
        lambda store: store.computed_state("t", 0),
        lambda store: store.log_segment("t", 0),
        lambda store: store.tables("t"),
        lambda store: store.row_changes("t", 0, 0),
        lambda store: store.row_changes_since("t", None, 0),
        lambda store: store.scan("t", 0),
        lambda store: store.file_changes("t", 0, 1),
    ],
    ids=["manifest", "state", "segment", "metadata tables", "changes", "changes since", "scan", "file changes"],
)
def test_version_that_is_not_stored_is_an_error(ask: Callable[[SnapshotStore], object], store: SnapshotStore) -> None:
    with pytest.raises(StoredVersionNotFoundError):
        ask(store)


def test_table_that_was_never_stored_has_no_versions_and_needs_spark(store: SnapshotStore) -> None:
    assert (store.versions("t"), store.table("t").current_names(), store.table("t").manifests()) == ([], {}, {})
    assert store.reason_for_spark("t") is not None


@pytest.mark.parametrize(("chosen", "expected"), [(None, {"anon": True}), ({}, {})])
def test_data_files_are_read_with_the_options_of_the_store_unless_a_scan_has_its_own(
    tmp_path: Path, chosen: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    state = SimpleNamespace(protocol=None, metadata=Metadata(id="t", schema_string='{"type":"struct","fields":[]}'))
    stored: Any = SimpleNamespace(computed_states=lambda manifests: {0: state}, generation_folder=str)
    manifest: Any = SimpleNamespace(version=0, log_path="file:///t/_delta_log", generation="1")
    found = SnapshotStore.open(None, tmp_path / "store", {"anon": True})._opened(stored, manifest)
    assert found.scanned(ScanOptions(storage_options=chosen)).spark_files.storage_options == expected
