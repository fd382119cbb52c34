"""Builders for the tests of stored row changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.protocol.properties.retention import KEEPS_EVERYTHING
from deltasnap_core.rules.file_actions import KEY_FIELDS
from deltasnap_core.store.stored_row_changes import _actions
from deltasnap_core.store.stored_version import StoredVersion
from tests.builders import FIRST_COMMIT_MS, VECTOR, Action, add, metadata, protocol, remove

AT_0 = {**VECTOR, "offset": 0}


LATER = FIRST_COMMIT_MS + 10**12


COMMITS: Sequence[Sequence[Action]] = [
    [protocol(), metadata(), *(add(name) for name in "abcdefgh"), add("x%41"), add("%2Fp q")],
    [remove("a", deletion_timestamp=LATER), add("a", deletionVector=VECTOR, size=2)],
    [remove("a", deletionVector=VECTOR), add("a", deletionVector=AT_0), remove("b", deletion_timestamp=1)],
    [remove("c", dataChange=False, deletion_timestamp=LATER), add("c2", dataChange=False)],
    [remove("d", dataChange=False, deletion_timestamp=1), add("d2", dataChange=False)],
    [add("e", dataChange=False, stats="{}"), add("f"), remove("never there")],
    [],
    [remove("c2", deletion_timestamp=LATER), add("c"), add("b")],
    [add("xA"), remove("%2Fp%20q", deletion_timestamp=LATER), remove("g"), add("g")],
    [remove("c", deletion_timestamp=LATER), remove("h", deletion_timestamp=LATER), add("c2", size=9)],
]


def by_whole_lists(before: StoredVersion | None, versions: Sequence[StoredVersion]) -> Iterator[tuple[Any, ...]]:
    """The oracle: the file actions from all files of each version."""
    files = {} if before is None else by_key(before, "all_files")
    for each in versions:
        earlier, files = files, by_key(each, "all_files")
        tombstones = by_key(each, "tombstones")
        added = {key: row for key, row in files.items() if key not in earlier}
        gone = {key: tombstones.get(key, {}).get("dataChange") for key in earlier.keys() - files.keys()}
        is_unknown = each.manifest.version_changes is None or None in gone.values()
        for key, known in gone.items():
            yield each.manifest.version, False, *key, earlier[key]["size"], is_unknown or known
        for key, row in added.items():
            yield each.manifest.version, True, *key, row["size"], is_unknown or row["dataChange"] is not False


def by_key(version: StoredVersion, kind: Any) -> Mapping[tuple[Any, ...], dict[str, Any]]:
    keeping = replace(version, manifest=replace(version.manifest, min_file_retention_timestamp=KEEPS_EVERYTHING))
    rows = keeping.arrow(kind).to_pylist(maps_as_pydicts="strict")
    return {
        (unquote(row["path"]), *((row["deletionVector"] or {}).get(name) for name in KEY_FIELDS)): row for row in rows
    }


def found_by(before: StoredVersion | None, versions: Sequence[StoredVersion]) -> Iterator[tuple[Any, ...]]:
    for each in _actions(before, versions):
        vector = each.vector
        key = (None, None, None) if vector is None else (vector.storage_type, vector.path_or_inline_dv, vector.offset)
        yield each.version, each.is_add, unquote(each.path), *key, each.size, each.data_change


def check(store: SnapshotStore, first: int, last: int, starts: Sequence[int] = (0, 1, 5)) -> None:
    stored = [store._version("t", version) for version in range(first, last + 1)]
    for start in (start for start in starts if start < len(stored)):
        before = stored[start - 1] if start else None
        if before is None and first:
            continue
        expected = sorted(by_whole_lists(before, stored[start:]), key=repr)
        assert sorted(found_by(before, stored[start:]), key=repr) == expected


def write_versions(store: SnapshotStore, log: DeltaLog, splits: Sequence[int]) -> None:
    last = log.update().version
    for start, end in zip((0, *splits), (*splits, last + 1), strict=True):
        store.write_range("t", log, start, end - 1)
