"""Who or what made a commit, on pages and in `history`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deltasnap_assets.command.views.history import history_table, read_history
from deltasnap_assets.provenance import made_by, made_how
from deltasnap_assets.tables.pages.metadata import clustering_metadata, commit_metadata
from deltasnap_core import CommitInfo, DomainMetadata, Metadata, TableLog
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import add, commit_info, metadata, protocol, write_log

DATABRICKS: dict[str, Any] = {
    "userName": "ada@example.com",
    "job": {"jobId": "12", "jobName": "nightly", "runId": "345", "triggerType": "periodic"},
    "notebook": {"notebookId": "77"},
    "clusterId": "0303-x",
    "readVersion": 3,
    "isolationLevel": "WriteSerializable",
    "isBlindAppend": True,
    "engineInfo": "Databricks-Runtime/15.4",
}


def test_commit_of_databricks_names_its_job_notebook_and_cluster() -> None:
    commit = CommitInfo.from_json({"operation": "WRITE", **DATABRICKS})
    assert made_by(commit) == {
        "user": "ada@example.com",
        "job": "nightly (12, run 345)",
        "notebook": "77",
        "cluster": "0303-x",
        "engine": "Databricks-Runtime/15.4",
    }
    assert made_how(commit) == {"read_version": "3", "isolation_level": "WriteSerializable", "blind_append": "yes"}
    entries = {name: entry.value for name, entry in commit_metadata(commit).items()}
    assert entries == {"operation": "WRITE", **made_by(commit), **made_how(commit)}


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"jobId": 12}, "12"),
        ({"jobName": "nightly"}, "nightly"),
        ({"jobId": "12", "jobRunId": "9", "runId": "8"}, "12, run 9"),
        ({"jobId": "", "jobName": None}, None),
        ({"jobName": {"a": 1}}, '{"a": 1}'),
        ({}, None),
    ],
)
def test_job_may_lack_anything(job: dict[str, Any], expected: str | None) -> None:
    assert made_by(CommitInfo.from_json({"job": job})).get("job") == expected


def test_commit_without_information_has_none() -> None:
    assert (made_by(CommitInfo()), made_how(CommitInfo())) == ({}, {})
    assert made_how(CommitInfo(is_blind_append=False, read_version=0)) == {"blind_append": "no", "read_version": "0"}


def test_history_shows_the_job_and_how_a_commit_was_made(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), commit_info("WRITE", **DATABRICKS), add("a")]})
    console = Console(width=260, record=True, file=(tmp_path / "out").open("w"))
    console.print(history_table(read_history(TableLog.for_path(tmp_path), 5).entries, 260))
    text = console.export_text()
    for part in ("ada@example.com", "job nightly (12, run 345)", "notebook 77", "cluster 0303-x"):
        assert part in text
    assert "WRITE (read version 3, WriteSerializable, blind append)" in text


def clustered(*paths: list[str], names: dict[str, str]) -> Any:
    """A state with these clustering columns. names: the physical name of each column."""
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": physical} if physical != name else {},
        }
        for name, physical in names.items()
    ]
    nested = {"name": "a", "type": {"type": "struct", "fields": fields}, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [*fields, nested]})
    domain = DomainMetadata(
        domain="delta.clustering", configuration=json.dumps({"clusteringColumns": paths}), removed=False
    )
    return state(domain_metadata=(domain,), metadata=Metadata(id="t", schema_string=schema, partition_columns=()))


def test_clustering_columns_have_their_names_not_those_in_files() -> None:
    names = {"day": "col-1", "id": "id"}
    found = clustering_metadata(clustered(["col-1"], ["id"], ["a", "col-1"], ["gone"], names=names))
    assert found["clustered_by"].value == "day, id, a.day, gone"
    assert clustering_metadata(clustered(names=names)) == {}
    assert clustering_metadata(state()) == {}


@pytest.mark.parametrize("configuration", ["[]", "{}", "nope", '{"clusteringColumns": 5}'])
def test_clustering_that_cannot_be_read_is_a_note(configuration: str) -> None:
    domain = DomainMetadata(domain="delta.clustering", configuration=configuration, removed=False)
    (name,) = clustering_metadata(state(domain_metadata=(domain,)))
    assert name == "clustering_metadata_problem"
