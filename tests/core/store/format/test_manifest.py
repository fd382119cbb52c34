"""The names and manifests of stored versions, with facts about their commits."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from deltasnap_core.log.commits.commit_summary import CommitSummary
from deltasnap_core.store.format import layout
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_identity import CommitIdentity, VersionIdentity
from tests.core.store.format.manifest_builders import MANIFEST
from tests.core.store.format.version_documents_builders import manifest_of

BARE = replace(MANIFEST, version_changes=None, plain_parquet=None, identity=None, commit=None, computed_by=None)
FROM_CHECKPOINT = VersionIdentity(commit=None, checkpoint_files={"12.checkpoint.parquet": (1, 2)}, chain="c2")

FILE_JSON = {"path": "base/x/part-0.parquet", "size": 1024, "rows": 20, "footer": "f1"}
BARE_JSON: dict[str, Any] = {
    "format": 3,
    "table": "events",
    "version": 12,
    "generation": "000001-id",
    "tableId": "id",
    "logPath": "file:///data/é/_delta_log",
    "timestamp": 1_700_000_000_000,
    "minFileRetentionTimestamp": 1_699_000_000_000,
    "base": {"first": 10, "last": 10, "files": [FILE_JSON]},
    "changes": [{"first": 11, "last": 12, "files": [{**FILE_JSON, "path": "changes/y/part-0.parquet", "rows": 4}]}],
    "computedState": {"numOfFiles": 20},
    "logSegment": {"version": 12},
    "parts": {"metadata": {"entries": {"id": "id"}}, "deltas": {"entries": {}, "shared": "abc", "removed": ["k"]}},
}
MANIFEST_JSON = {
    **BARE_JSON,
    "versionChanges": {"numAddedFiles": 1, "numRemovedFiles": 2, "addedBytes": 3, "removedBytes": 4},
    "tables": {"allFiles": FILE_JSON, "tombstones": FILE_JSON},
    "identity": {
        "commit": {"size": 7, "modificationTime": 8, "inCommitTimestamp": None, "digest": "d1"},
        "chain": "c1",
    },
    "commit": {
        "info": {"operation": "WRITE", "operationParameters": {"mode": "Append"}},
        "sample": [["+", "é", 3], ["-", "b", None]],
    },
    "computedBy": "Spark 4.3.0, local[2]",
}
FROM_CHECKPOINT_JSON = {
    **BARE_JSON,
    "identity": {"commit": None, "checkpointFiles": {"12.checkpoint.parquet": [1, 2]}, "chain": "c2"},
    "commit": {"info": None, "sample": []},
}
DOCUMENTS = [
    pytest.param(MANIFEST, MANIFEST_JSON, id="full"),
    pytest.param(BARE, BARE_JSON, id="bare"),
    pytest.param(
        replace(BARE, identity=FROM_CHECKPOINT, commit=CommitSummary(info=None)), FROM_CHECKPOINT_JSON, id="commit lost"
    ),
]


@pytest.mark.parametrize(("manifest", "document"), DOCUMENTS)
def test_manifest_is_one_document_that_is_parsed_back(manifest: VersionManifest, document: dict[str, Any]) -> None:
    """Stores of this release have these documents."""
    content = manifest.to_bytes()
    assert {**json.loads(content), "digest": "any"} == {**document, "digest": "any"}
    assert VersionManifest.from_bytes(content) == manifest


def values_of(manifest: VersionManifest) -> dict[str, Any]:
    """The document in the formats without a digest."""
    values: dict[str, Any] = {**json.loads(manifest.to_bytes()), "format": 2}
    del values["digest"]
    return values


def test_manifest_of_format_1_has_no_identity() -> None:
    old = {**values_of(MANIFEST), "format": 1}
    del old["identity"], old["commit"]
    assert VersionManifest.from_bytes(json.dumps(old).encode()) == replace(MANIFEST, identity=None, commit=None)


def test_manifest_lists_its_files() -> None:
    assert MANIFEST.change_rows == 4
    assert (MANIFEST.base.rows, MANIFEST.base.size) == (20, 1024)
    assert MANIFEST.documents == {"abc"}
    assert [file.path for file in MANIFEST.data_files] == [
        "base/x/part-0.parquet",
        "changes/y/part-0.parquet",
        "base/x/part-0.parquet",
        "base/x/part-0.parquet",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 4}, "expected format 3 or less, found 4"),
        ({"format": 0}, "expected a manifest of format 3 or less, found 0"),
        ({"format": "3"}, "expected a manifest of format 3 or less, found '3'"),
        ({"format": True, "digest": "x"}, "its digest"),
        ({"format": 3}, "its digest"),
        ({"version": True}, r"manifest\.version: expected a 64-bit integer, found True"),
        ({"table": 1}, r"manifest\.table: expected a string, found 1"),
        ({"computedBy": 1}, r"manifest\.computedBy: expected a string, found 1"),
        ({"version": "12"}, r"manifest\.version: expected a 64-bit integer, found '12'"),
        ({"tableId": None}, r"manifest\.tableId: required, but absent or null"),
        ({"version": 13}, "lead to version 13"),
        ({"version": 10}, "lead to version 10"),
        ({"base": []}, r"manifest\.base: expected an object, found"),
        ({"changes": [{"first": 13, "last": 13, "files": []}]}, "expected changes from version 11 on, found 13-13"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_invalid_manifest_is_rejected(change: dict[str, Any], message: str) -> None:
    content = json.dumps({**values_of(MANIFEST), **change}).encode()
    with pytest.raises(ValueError, match=message):
        VersionManifest.from_bytes(content)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b"\xff"])
def test_bytes_that_are_not_a_manifest_are_rejected(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        VersionManifest.from_bytes(content)


def test_manifest_with_any_flipped_bit_is_rejected() -> None:
    content = MANIFEST.to_bytes()
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(ValueError):  # noqa: PT011
            VersionManifest.from_bytes(bytes(flipped))


def test_manifest_nested_too_deeply_is_rejected() -> None:
    with pytest.raises(ValueError, match="nested deeper than 500 levels"):
        VersionManifest.from_bytes(b'{"format":' + b"[" * 100_000)


def test_chain_of_a_version_identifies_its_checkpoint_files_in_any_order() -> None:
    files = {"b": (1, 2), "a": (3, 4)}
    chains = [
        VersionIdentity.following(None, None, each).chain
        for each in (files, dict(sorted(files.items())), {**files, "a": (3, 5)}, {**files, "a": (4, 4)}, {"b": (1, 2)})
    ]
    assert chains[0] == chains[1]
    assert len(set(chains)) == 4


def test_chain_of_a_version_is_a_digest_of_all_versions_before_it() -> None:
    """Versions stored by earlier releases have these chains."""
    commit = CommitIdentity(size=7, modification_time=8, in_commit_timestamp=None, digest="d1")
    first = VersionIdentity.following(None, None, {"b": (1, 2), "a": (3, 4)})
    second = VersionIdentity.following(first, commit, {"b": (1, 2)})
    assert first.chain == sha256(b"\na:3:4;b:1:2").hexdigest()
    assert second == VersionIdentity(commit=commit, chain=sha256(f"{first.chain}\nd1".encode()).hexdigest())


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


def test_only_modification_times_are_made_increasing() -> None:
    """In-commit timestamps are returned as they are."""

    def manifest(version: int, timestamp: int, own: int | None = None) -> object:
        commit = CommitIdentity(size=1, modification_time=timestamp, in_commit_timestamp=own, digest="")
        return replace(manifest_of(version), timestamp=timestamp, identity=VersionIdentity(commit=commit, chain=""))

    times = {0: (50, None), 1: (20, 7), 2: (30, None), 3: (40, 40), 4: (40, 40), 5: (10, 10)}
    manifests = [manifest(version, *time) for version, time in times.items()]
    manifests += [replace(manifest_of(6), timestamp=53), replace(manifest_of(7), timestamp=60, identity=None)]
    assert commit_times(manifests) == {0: 50, 1: 51, 2: 52, 6: 53, 7: 60, 3: 40, 4: 40, 5: 10}  # type: ignore[arg-type]
