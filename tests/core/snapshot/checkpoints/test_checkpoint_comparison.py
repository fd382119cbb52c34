"""A written checkpoint is compared with its snapshot. These parts of the comparison need no Spark."""

from __future__ import annotations

from deltasnap_core.snapshot.checkpoints.checkpoint_writer import _differences, _names_any, _sidecar_action
from deltasnap_core.storage.log_store import FileStatus
from tests.assets.tables.pages.metadata_builders import state

SIDECARS = tuple(FileStatus(path=f"file:///t/_sidecars/{name}", size=3, modification_time=7) for name in ("a", "b.p"))


def test_each_different_field_is_named_with_its_numbers() -> None:
    other = state(num_of_files=9, metadata=None, num_of_removes=0)
    assert _differences(state(), state(), ignored=()) == []
    assert _differences(state(), other, ignored=()) == [
        "num_of_files: expected 4, found 9",
        "num_of_removes: expected 2, found 0",
        "metadata",
    ]
    assert _differences(state(), other, ignored=("metadata", "num_of_files")) == ["num_of_removes: expected 2, found 0"]


def test_sidecars_are_named_by_an_action_each() -> None:
    assert _sidecar_action(SIDECARS[1]) == {"sidecar": {"path": "b.p", "sizeInBytes": 3, "modificationTime": 7}}


def test_sidecar_is_in_use_if_a_checkpoint_names_it() -> None:
    assert _names_any(b'{"sidecar":{"path":"b.p"}}', SIDECARS)
    assert not _names_any(b'{"sidecar":{"path":"c"}}', SIDECARS[1:])
    assert not _names_any(b"b.p", ())
