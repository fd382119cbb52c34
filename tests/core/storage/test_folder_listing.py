from __future__ import annotations

from pathlib import Path

from deltasnap_core.storage.folder_listing import list_below, roots_of
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
