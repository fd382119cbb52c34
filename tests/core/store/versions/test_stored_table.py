"""Damaged or missing documents of a stored table are errors that name the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deltasnap_core.errors import CorruptStoreError, StoredVersionNotFoundError
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.layout import ManifestName, document_path
from deltasnap_core.store.format.manifest import DataSet, StoreFile
from deltasnap_core.store.format.shared_documents import Part, document_digest, encode_document
from deltasnap_core.store.versions.stored_table import StoredTable, name_of
from tests.core.store.manifests import GENERATION, log_store, store_versions, stored_table, table_log


@pytest.fixture
def stored(tmp_path: Path) -> StoredTable:
    """A table with the versions 0 to 2."""
    found = stored_table(tmp_path)
    store_versions(found, table_log(log_store(range(3))), range(3))
    return found


def test_manifest_under_another_name_is_an_error(stored: StoredTable) -> None:
    first, second, _ = stored.stored_versions().current
    content = stored.storage.read(stored.manifest_url(second))
    stored.storage.write(stored.manifest_url(first), content)
    with pytest.raises(CorruptStoreError, match=f"expected the manifest of {first} of table events") as error:
        stored.read_manifests([first])
    assert error.value.path == stored.manifest_url(first)
    renamed = replace(stored, name="renamed")
    stored.storage.write(renamed.manifest_url(second), content)
    with pytest.raises(CorruptStoreError, match=r"of table renamed, found that of .* of table events"):
        renamed.read_manifests([second])


def test_manifest_removed_in_the_meantime_is_a_version_that_is_not_stored(stored: StoredTable) -> None:
    names = stored.stored_versions().current
    stored.storage.delete([stored.manifest_url(names[1])])
    with pytest.raises(StoredVersionNotFoundError) as error:
        stored.read_manifests([names[1]])
    assert error.value.version == 1
    with pytest.raises(StoredVersionNotFoundError) as error:
        stored.read_manifests(names)
    assert error.value.version is None
    assert [manifest.version for manifest in stored.read_sound_manifests(names)] == [0, 2]


def test_version_that_is_not_stored_is_named(stored: StoredTable) -> None:
    assert list(stored.manifests([2, 0])) == [0, 2]
    with pytest.raises(StoredVersionNotFoundError) as error:
        stored.manifests([0, 7])
    assert error.value.version == 7


def test_manifest_without_the_values_of_a_state_is_an_error(stored: StoredTable) -> None:
    (manifest,) = stored.manifests([1]).values()
    with pytest.raises(CorruptStoreError) as error:
        stored.computed_states([replace(manifest, computed_state={})])
    assert error.value.path == stored.manifest_url(name_of(manifest))


def test_shared_document_with_other_content_is_an_error(stored: StoredTable) -> None:
    content = encode_document({"a": 1})
    digest = document_digest(content)
    stored.write_documents(GENERATION, {digest: {"a": 1}})
    (manifest,) = stored.manifests([1]).values()
    shared = replace(manifest, parts={"state": Part(shared=digest)})
    assert stored.read_documents([shared]) == {digest: {"a": 1}}
    assert stored.read_documents([shared], ["another part"]) == {}
    url = join_url(stored.generation_folder(GENERATION), document_path(digest))
    stored.storage.write(url, content.replace(b"1", b"2"))
    with pytest.raises(CorruptStoreError, match="does not match its name") as error:
        stored.read_documents([shared])
    assert error.value.path == url


def test_markers_beside_the_manifests_name_the_fork_and_the_first_kept_version(stored: StoredTable) -> None:
    """Stores of this release have these documents."""
    fork, kept = "000002of000001at1-table-id", ManifestName(generation=GENERATION, version=2)
    stored.begin_fork(fork)
    stored.mark_pruned(kept)
    manifests = join_url(stored.folder, "manifests")
    found = {
        name: json.loads(stored.storage.read(join_url(manifests, name)))
        for name in stored.storage.names(manifests)
        if ManifestName.parse(name) is None
    }
    assert found == {
        f"{fork}.fork.json": {"generation": fork, "parent": 1, "version": 1},
        f"{GENERATION}.{2:020d}.pruned": {"generation": GENERATION, "version": 2},
    }
    versions = stored.stored_versions()
    assert (versions.forks, versions.kept) == ((fork,), (kept,))


def test_file_of_another_size_and_missing_file_are_problems(stored: StoredTable) -> None:
    files = tuple(StoreFile(path=f"base/{size}", size=size, rows=1) for size in (3, 4, 5))
    (manifest,) = stored.manifests([1]).values()
    damaged = replace(manifest, base=DataSet(first=1, last=1, files=files))
    urls = [join_url(stored.generation_folder(GENERATION), file.path) for file in files]
    stored.storage.write_many({urls[0]: b"123", urls[1]: b"123"})
    assert stored.missing_files([manifest, damaged]) == {
        urls[1]: "expected 4 bytes, found 3",
        urls[2]: "expected a file, found none",
    }
    with pytest.raises(CorruptStoreError, match="expected 4 bytes") as error:
        stored.check_files([damaged])
    assert error.value.path == urls[1]


def test_older_versions_are_looked_at_if_a_recent_one_lacks_a_file(stored: StoredTable) -> None:
    (manifest,) = stored.manifests([1]).values()

    def commit(*versions: int, missing: str) -> None:
        files = (StoreFile(path=missing, size=3, rows=1),) if missing else ()
        stored.commit(
            replace(manifest, version=v, base=DataSet(first=v, last=v, files=files), changes=()) for v in versions
        )

    commit(*range(2, 40), missing="")
    commit(0, 1, 9, missing="base/0")
    names = stored.stored_versions().current
    assert stored.incomplete_versions(names) == {}
    assert stored.incomplete_versions(()) == {}
    commit(10, missing="base/10")
    problem, folder = ": expected a file, found none", stored.generation_folder(GENERATION)
    assert stored.incomplete_versions(names) == {
        **dict.fromkeys((0, 1, 9), f"{folder}/base/0{problem}"),
        10: f"{folder}/base/10{problem}",
    }
