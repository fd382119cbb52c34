from __future__ import annotations

import json

import pytest

from deltasnap_assets.command.views.version_table import files_changed, metadata_changed, operation_text
from deltasnap_core import CommitInfo, Metadata, VersionChanges


def table(schema: str | None = None, **configuration: str) -> Metadata:
    return Metadata(id="t", schema_string=schema, partition_columns=(), configuration=configuration)


def schema_of(**types: str) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def test_columns_and_properties_that_changed_are_named() -> None:
    before = table(schema_of(a="long", b="long", c="long"), x="1", y="1")
    after = table(schema_of(a="long", b="string", d="long"), y="2", z="1")
    assert list(metadata_changed(before, after)) == [
        "column d added",
        "column c dropped",
        "column b changed",
        "property z added",
        "property x dropped",
        "property y changed",
    ]


def test_unreadable_schema_counts_as_changed() -> None:
    assert list(metadata_changed(table(schema_of(a="long")), table('{"type":"struct"}'))) == ["schema"]
    assert list(metadata_changed(table("{nope"), table("{nope"))) == []


FILES = {"none": (0, 0, []), "one": (1, 0, ["+1 file"]), "gone": (0, 1, ["-1 file"]), "both": (6, 22, ["+6 -22 files"])}


@pytest.mark.parametrize("case", FILES)
def test_added_and_removed_files_are_counted(case: str) -> None:
    added, removed, expected = FILES[case]
    changes = VersionChanges(num_added_files=added, num_removed_files=removed, added_bytes=0, removed_bytes=0)
    assert list(files_changed(changes)) == expected
    assert list(files_changed(None)) == []


def test_operation_includes_its_mode() -> None:
    assert operation_text(CommitInfo(operation="WRITE", operation_parameters={"mode": "Append"})) == "WRITE (append)"
    assert operation_text(CommitInfo(operation="MERGE", operation_parameters={"mode": "x"})) == "MERGE"
    assert operation_text(CommitInfo()) == "unknown"
