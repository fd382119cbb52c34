from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from deltasnap_core.log.commits.commit_summary import CommitSummary
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_identity import CommitIdentity, VersionIdentity
from tests.core.store.format.manifest_builders import MANIFEST

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
