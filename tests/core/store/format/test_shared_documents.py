from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.store.format.shared_documents import (
    JsonObject,
    Part,
    document_digest,
    encode_document,
    part_of,
)
from tests.core.store.manifests import log_store, store_versions, stored_table, table_log

INLINE_BYTES, PATCH_BYTES = 1024, 8192
BIG = {f"key{n:05d}": {"version": n} for n in range(1000)}
BIG_DIGEST = document_digest(encode_document(BIG))


def test_equal_objects_have_one_text() -> None:
    assert encode_document({"b": {"d": 1, "c": "é"}, "a": 2}) == '{"a":2,"b":{"c":"é","d":1}}'.encode()


def test_name_of_a_document_is_that_of_earlier_releases() -> None:
    assert document_digest(encode_document({"a": 1})) == "015abd7f5cc57a2dd94b7590f04ad808"


def test_small_object_stays_in_the_manifest() -> None:
    found = part_of({"a": 1}, None, {})
    assert found == Part(entries={"a": 1})


def test_large_object_is_a_document_named_by_its_content() -> None:
    found = part_of(BIG, None, {})
    assert found == Part(shared=BIG_DIGEST)


def test_unchanged_object_shares_the_document_of_the_version_before() -> None:
    found = part_of(dict(BIG), Part(shared=BIG_DIGEST), {BIG_DIGEST: BIG})
    assert found == Part(shared=BIG_DIGEST)


def test_small_difference_is_stored_next_to_the_shared_document() -> None:
    value = {**BIG, "key00001": {"version": -1}, "new": 1}
    del value["key00002"]
    found = part_of(value, Part(shared=BIG_DIGEST), {BIG_DIGEST: BIG})
    assert found == Part(shared=BIG_DIGEST, entries={"key00001": {"version": -1}, "new": 1}, removed=("key00002",))
    assert [*found.resolve({BIG_DIGEST: BIG}).items()] == sorted(value.items())


@pytest.mark.parametrize("length", [INLINE_BYTES, INLINE_BYTES + 1])
def test_object_up_to_a_size_stays_in_the_manifest(length: int) -> None:
    value = {"a": "x" * (length - len(encode_document({"a": ""})))}
    found = part_of(value, None, {})
    assert (found.shared is None) is (length == INLINE_BYTES)


def test_name_of_a_shared_document_must_be_a_text() -> None:
    with pytest.raises(ValueError, match=r"part\.shared: expected a string, found 1"):
        Part.from_json({"entries": {}, "shared": 1})


def test_extended_part_has_more_entries_and_needs_no_document() -> None:
    part = Part(shared=BIG_DIGEST, entries={"a": 1}, removed=("key00001", "key00002"))
    found = part.extended({"a": 2, "b": 3, "key00001": 4})
    expected = {**BIG, "a": 2, "b": 3, "key00001": 4}
    del expected["key00002"]
    assert found.resolve({BIG_DIGEST: BIG}) == expected
    assert found.is_small


def test_part_is_small_up_to_a_size() -> None:
    for shared, limit in ((None, INLINE_BYTES), (BIG_DIGEST, PATCH_BYTES)):
        empty = Part(shared=shared, entries={"a": ""})
        room = limit - len(encode_document(empty.to_json() if shared else empty.entries))
        sizes = [replace(empty, entries={"a": "x" * (room + more)}).is_small for more in (0, 1)]
        assert sizes == [True, False]


def test_large_difference_starts_a_new_document() -> None:
    value = {key: {"version": -1} for key in BIG}
    found = part_of(value, Part(shared=BIG_DIGEST), {BIG_DIGEST: BIG})
    assert found == Part(shared=document_digest(encode_document(value)))


def test_object_that_became_small_leaves_its_document() -> None:
    found = part_of({"a": 1}, Part(shared=BIG_DIGEST), {BIG_DIGEST: BIG})
    assert found == Part(entries={"a": 1})


def test_missing_document_is_not_used_as_a_base() -> None:
    found = part_of(BIG, Part(shared="gone"), {})
    assert found == Part(shared=BIG_DIGEST)


def test_bytes_per_version_stay_bounded_while_a_large_object_grows() -> None:
    value: dict[str, Any] = dict(BIG)
    documents: dict[str, JsonObject] = {}
    previous, in_manifests, shared_bytes = None, 0, 0
    versions = 200
    for version in range(versions):
        value = {**value, f"app{version}": {"version": version}}
        found = part_of(value, previous, documents)
        if found.shared is not None and found.shared not in documents:
            documents[found.shared] = value
            shared_bytes += len(encode_document(value))
        in_manifests = max(in_manifests, len(encode_document(found.to_json())))
        assert found.resolve(documents) == {key: value[key] for key in sorted(value)}
        previous = found
    assert in_manifests <= max(INLINE_BYTES, PATCH_BYTES) + 100
    assert shared_bytes / versions < 1024


OBJECTS = st.dictionaries(st.text(max_size=3), st.text(max_size=400), max_size=12)


@pytest.mark.slow
@given(st.lists(OBJECTS, max_size=8))
def test_object_is_restored_from_shared_documents(values: list[dict[str, str]]) -> None:
    documents: dict[str, JsonObject] = {}
    previous = None
    for value in values:
        found = part_of(value, previous, documents)
        if found.shared is not None:
            documents.setdefault(found.shared, value)
        assert Part.from_json(found.to_json()) == found
        assert found.resolve(documents) == value
        previous = found


def test_missing_shared_document_is_named(tmp_path: Path) -> None:
    table = stored_table(tmp_path)
    store_versions(table, table_log(log_store(range(1))), range(1))
    (manifest,) = table.read_manifests([*table.current_names().values()])
    table.write_documents(manifest.generation, {"first": {}})
    parts = {"metadata": Part(shared="first"), "state": Part(shared="abc")}
    with pytest.raises(CorruptStoreError, match="expected a shared document, found none") as raised:
        table.read_documents([replace(manifest, parts=parts)])
    assert raised.value.path.endswith("/000001-table-id/documents/abc.json")
