from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from deltasnap_core.storage.folder_listing import folder_of_pattern, list_below, matching_paths, roots_of
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles


def test_folder_is_listed_by_path_including_link_targets(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    names = [f"{day}/{name}.parquet" for day in ("d2", "d1", "d10") for name in ("c", "a", "b")]
    for name in (*names, "z.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"12")
    (tmp_path / "elsewhere.parquet").write_bytes(b"123")
    (folder / "link.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "behind.parquet").write_bytes(b"123")
    (folder / "d1" / "linked").symlink_to(tmp_path / "other")
    (tmp_path / "alias").symlink_to(folder)
    found = list_below(to_url(tmp_path / "alias"))
    assert [file.path for file in found.files] == [
        f"{to_url(tmp_path / 'alias')}/{n}" for n in sorted([*names, "z.parquet"])
    ]
    assert {file.size for file in found.files} == {2}
    assert found.roots == (to_url(tmp_path / "alias"), to_url(folder))
    assert sorted(found.link_targets) == [to_url(tmp_path / "elsewhere.parquet"), to_url(tmp_path / "other")]
    assert list_below(to_url(tmp_path / "nothing")).files == ()


def test_folder_of_an_object_store_has_no_links() -> None:
    folder = "memory://test_folder_listing"
    WritableFiles(folder).write_many({f"{folder}/b": b"12", f"{folder}/a/c": b"3"})
    found = list_below(folder)
    assert [(file.path, file.size) for file in found.files] == [(f"{folder}/a/c", 1), (f"{folder}/b", 2)]
    assert (found.roots, found.link_targets) == ((folder,), ())
    assert roots_of(folder) == (folder,)


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
