"""The paths that a pattern matches, on a local disk and in memory."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from deltasnap_core.storage.folder_listing import folder_of_pattern, matching_paths


def test_matching_folders_are_listed_in_order(tmp_path: Path) -> None:
    for name in ("events_b", "events_a", "other"):
        (tmp_path / name).mkdir()
    assert matching_paths(f"{tmp_path}/events_*", {}) == [f"{tmp_path}/events_a", f"{tmp_path}/events_b"]
    assert matching_paths(f"{tmp_path}/events_[b]", {}) == [f"{tmp_path}/events_b"]
    assert matching_paths(f"{tmp_path}/none_*", {}) == []


def test_wildcard_before_the_last_part_matches_folders(tmp_path: Path) -> None:
    (tmp_path / "x" / "t").mkdir(parents=True)
    (tmp_path / "y" / "u").mkdir(parents=True)
    assert matching_paths(f"{tmp_path}/?/t", {}) == [f"{tmp_path}/x/t"]


def test_folder_that_does_not_exist_is_an_error_and_not_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        matching_paths(f"{tmp_path}/nope/*", {})


def test_paths_of_a_url_have_no_scheme_and_new_ones_are_seen() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/matching/a/f", b"")
    assert matching_paths("memory://matching/*", {}) == ["/matching/a"]
    memory.pipe_file("/matching/b/f", b"")
    assert matching_paths("memory://matching/*", {}) == ["/matching/a", "/matching/b"]


@pytest.mark.parametrize(
    ("pattern", "folder"),
    [("/lake/t_*", "/lake"), ("/lake/?/t*", "/lake"), ("/lake/x/[ab]", "/lake/x"), ("*", ""), ("/*", ""), ("a/b", "a")],
)
def test_folder_of_a_pattern_ends_before_its_first_wildcard(pattern: str, folder: str) -> None:
    assert folder_of_pattern(pattern) == folder
