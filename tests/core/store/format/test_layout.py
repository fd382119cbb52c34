from __future__ import annotations

import pytest

from deltasnap_core.store.format import layout
from deltasnap_core.store.format.layout import ManifestName


def test_manifest_name_is_parsed_back() -> None:
    name = ManifestName(generation="000002-4f0c", version=12)
    assert str(name) == "000002-4f0c.00000000000000000012.json"
    assert ManifestName.parse(str(name)) == name


@pytest.mark.parametrize("name", [".tmp-1f", "x.json", "000002-a.12.json", "000002-a.00000000000000000012.json.bak"])
def test_manifest_name_of_another_file_is_none(name: str) -> None:
    assert ManifestName.parse(name) is None


def test_names_in_a_store_are_those_of_earlier_releases() -> None:
    folders = [layout.MANIFESTS, layout.BASE, layout.CHANGES, layout.DOCUMENTS, layout.STAGING]
    assert folders == ["manifests", "base", "changes", "documents", "staging"]
    assert [layout.ALL_FILES, layout.TOMBSTONES] == ["all_files", "tombstones"]  # users read these
    assert [layout.LAST_POLL, layout.FLEET_FOLDER] == ["last_poll.json", "@fleet"]


def test_manifest_names_sort_by_generation_then_version() -> None:
    names = [ManifestName(generation=g, version=v) for g, v in [("000010-a", 0), ("000002-z", 11), ("000002-z", 2)]]
    assert sorted(names) == [names[2], names[1], names[0]]
    assert sorted(map(str, names)) == [str(name) for name in sorted(names)]


@pytest.mark.parametrize(
    ("table_id", "expected"),
    [
        ("4f0c-11", "000001-4f0c-11"),
        ("a/b c", "000001-a_b_c-0af99a60"),
        ("", "000001--e3b0c442"),
        ("x" * 100, f"000001-{'x' * 64}-09ecb6eb"),
    ],
    ids=["uuid", "unsafe", "empty", "long"],
)
def test_generation_name_is_a_safe_folder(table_id: str, expected: str) -> None:
    name = layout.generation_name(1, table_id)
    assert name == expected  # folders of earlier releases have these names
    assert layout.generation_ordinal(name) == 1
    assert ManifestName.parse(str(ManifestName(generation=name, version=0))) is not None


def test_generation_names_of_similar_ids_differ() -> None:
    assert layout.generation_name(1, "a/b") != layout.generation_name(1, "a_b")


def test_folders_of_two_writes_differ() -> None:
    assert layout.new_folder(layout.CHANGES, 1, 2) != layout.new_folder(layout.CHANGES, 1, 2)


@pytest.mark.parametrize("table", ["", "a/b", "..", ".hidden", "a b", "-x", "a\n"])
def test_table_name_that_is_not_a_folder_name_is_rejected(table: str) -> None:
    with pytest.raises(ValueError, match="expected a table name"):
        layout.check_table_name(table)


@pytest.mark.parametrize("table", ["events", "a.b", "A-1_x"])
def test_table_name_is_returned(table: str) -> None:
    assert layout.check_table_name(table) == table
