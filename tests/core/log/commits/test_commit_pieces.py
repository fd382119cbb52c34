"""Commits are parsed in pieces of a limited size."""

from __future__ import annotations

import pytest

from deltasnap_core.log.commits import commit_batch, commit_pieces
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import MemoryLogStore


def test_small_commits_are_parsed_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_pieces, "PIECE_BYTES", 10)
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 10)
    store = MemoryLogStore()
    files = [store.put(commit_file(version), b"x" * size) for version, size in enumerate([4, 4, 4, 4, 10, 1])]
    pieces = [[*piece.path_of] for piece in commit_pieces.pieces_of(store, files)]
    assert pieces == [[0, 1, 2], [3, 4], [5]]
