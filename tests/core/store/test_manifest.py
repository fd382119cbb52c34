from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deltasnap_core.store.manifest import DataFile, DataSet, VersionChanges, VersionManifest, VersionTables
from deltasnap_core.store.shared_documents import Part

FILE = DataFile(path="base/x/part-0.parquet", size=1024, rows=20)
BASE = DataSet(first=10, last=10, files=(FILE,))
MANIFEST = VersionManifest(
    table="events",
    version=12,
    generation="000001-id",
    table_id="id",
    log_path="file:///data/é/_delta_log",
    timestamp=1_700_000_000_000,
    min_file_retention_timestamp=1_699_000_000_000,
    base=BASE,
    changes=(DataSet(first=11, last=12, files=(replace(FILE, path="changes/y/part-0.parquet", rows=4),)),),
    version_changes=VersionChanges(num_added_files=1, num_removed_files=2, added_bytes=3, removed_bytes=4),
    tables=VersionTables(all_files=FILE, tombstones=FILE),
    computed_state={"numOfFiles": 20},
    log_segment={"version": 12},
    parts={"metadata": Part(entries={"id": "id"}), "deltas": Part(shared="abc", removed=("k",))},
)


@pytest.mark.parametrize(
    "manifest", [MANIFEST, replace(MANIFEST, version_changes=None, tables=None)], ids=["full", "bare"]
)
def test_manifest_comes_back_from_its_bytes(manifest: VersionManifest) -> None:
    assert VersionManifest.from_bytes(manifest.to_bytes()) == manifest


def test_manifest_says_what_it_needs() -> None:
    assert MANIFEST.change_rows == 4
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
        ({"format": 2}, "expected format 1, found 2"),
        ({"version": "12"}, "expected version to be an integer, found '12'"),
        ({"tableId": None}, "expected tableId to be text, found None"),
        ({"version": 13}, "lead to version 13"),
        ({"version": 10}, "lead to version 10"),
        ({"base": []}, "expected a manifest"),
        ({"changes": [{"first": 13, "last": 13, "files": []}]}, "expected changes from version 11 on, found 13-13"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_manifest_that_is_not_lawful_is_refused(change: dict[str, Any], message: str) -> None:
    content = json.dumps({**json.loads(MANIFEST.to_bytes()), **change}).encode()
    with pytest.raises(ValueError, match=message):
        VersionManifest.from_bytes(content)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b"\xff"])
def test_bytes_that_are_no_manifest_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        VersionManifest.from_bytes(content)
