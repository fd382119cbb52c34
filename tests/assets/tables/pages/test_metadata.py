from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster import serialize_value

from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.tables.pages.asset_pages import _described, contents_text
from deltasnap_assets.tables.pages.metadata import (
    all_files_metadata,
    commit_metadata,
    computed_by_metadata,
    computed_state_metadata,
    log_segment_metadata,
    noting_problems,
    operation_metadata,
    protocol_metadata,
    sample_metadata,
    stored_metadata,
    time_value,
    tombstones_metadata,
)
from deltasnap_core import CorruptLogError, DomainMetadata, Metadata, Protocol
from deltasnap_core.log.commits.commit_batch import ChangedFile
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.store.format.manifest import VersionChanges
from tests.assets.tables.pages.metadata_builders import KIB, SCHEMA, plain, state
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, checksum, commits, mtime_of


def test_log_segment_shows_the_files_to_read() -> None:
    late = [replace(file, modification_time=mtime_of(20)) for file in checkpoint(10)]
    store = MemoryLogStore(commits(0, 12), late, checksum(12))
    entries = plain(log_segment_metadata(LogSegmentBuilder(store=store, log_path=LOG_PATH).build()))
    assert entries == {
        "version": "12",
        "modified_at": mtime_of(12) / 1000,
        "commits_since_checkpoint": 2,
        "checkpoint_version": "10",
        "checkpoint_kind": "classic",
        "files_to_read": 3,
        "dagster/size_bytes": 110 + 111 + 112,
        "compactions": "0",
        "has_checksum": True,
        "dagster/uri": LOG_PATH,
    }


def test_log_segment_without_checkpoint() -> None:
    entries = plain(
        log_segment_metadata(LogSegmentBuilder(store=MemoryLogStore(commits(0, 2)), log_path=LOG_PATH).build())
    )
    assert (entries["commits_since_checkpoint"], entries["checkpoint_version"]) == (3, None)


def test_computed_state_has_numbers_protocol_schema_and_properties() -> None:
    domains = (DomainMetadata(domain="d", configuration="{}", removed=False),) * 3
    entries = computed_state_metadata(state(num_of_set_transactions=1234, domain_metadata=domains))
    schema = entries.pop("dagster/column_schema")
    assert plain(entries) == {
        "num_records": 90,  # known records less deleted ones
        "num_of_files": 4,
        "size_in_bytes": 60_516,
        "size_per_file": 15_129,
        "tombstones": 2,
        "num_of_set_transactions": "1,234",
        "num_of_domains": "3",
        "num_deletion_vectors": 1,
        "num_deleted_records": 10,
        "min_reader_version": "3",
        "min_writer_version": "7",
        "table_features": "deletionVectors",
        "table_id": "t",
        "num_columns": "2",
        "partition_columns": "id",
        "properties": {"delta.appendOnly": "true"},
    }
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    columns = [(each.name, each.type, each.description, each.constraints) for each in schema.schema.columns]
    assert columns == [
        ("id", "bigint", "the key", dg.TableColumnConstraints(nullable=False, other=["partition column"])),
        ("tags", "array<string>", None, dg.TableColumnConstraints(nullable=True)),
    ]


def test_empty_version_has_files_of_no_size() -> None:
    entries = plain(computed_state_metadata(state(num_of_files=0, size_in_bytes=0, metadata=None, protocol=None)))
    assert (entries["size_per_file"], "table_id" in entries, "min_reader_version" in entries) == (0, False, False)


def test_lists_of_files_have_their_number_as_rows() -> None:
    assert plain(all_files_metadata(state())) == {"dagster/partition_row_count": 4, "size_in_bytes": 60_516}
    assert plain(tombstones_metadata(state())) == {"dagster/partition_row_count": 2}


def test_changes_of_a_version_have_numbers_if_the_version_before_is_stored() -> None:
    changes = VersionChanges(num_added_files=1, num_removed_files=2, added_bytes=3, removed_bytes=4)
    known: dict[str, Any] = {"timestamp": 5_000, "change_rows": 1_234, "computed_by": None, "generation": "000001-g"}
    manifest: Any = SimpleNamespace(base=SimpleNamespace(last=7), version_changes=changes, **known)
    stored = {"committed_at": 5.0, "stored_as": "1,234 changes since the base at version 7", "generation": "000001-g"}
    numbers = {"added_files": 1, "removed_files": 2, "added_bytes": 3, "removed_bytes": 4}
    assert plain(stored_metadata(manifest)) == {**stored, **numbers}
    manifest.version_changes, manifest.computed_by = None, "driver"
    assert plain(stored_metadata(manifest)) == {**stored, "computed_by": "driver"}


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (ValueError("no"), "cannot be shown: no"),
        (CorruptLogError(path="p", reason="odd"), "cannot be shown: p: odd"),
        (KeyError("k"), "cannot be shown: KeyError: 'k'"),
    ],
    ids=["value", "log", "other"],
)
def test_entry_that_fails_becomes_a_note(error: Exception, note: str) -> None:
    @noting_problems
    def _numbers(wanted: int, *, other: int) -> dict[str, dg.MetadataValue]:
        assert (wanted, other) == (1, 2)
        raise error

    (shown,) = plain(_numbers(1, other=2)).items()
    assert shown[0] == "numbers_problem"
    assert str(shown[1]).startswith("cannot be shown: ")
    assert note.removeprefix("cannot be shown: ") in str(shown[1])


def test_objects_and_lists_have_at_most_a_hundred_parts() -> None:
    parameters = {"list": json.dumps([*range(101)]), "whole": json.dumps([*range(100)])}
    shown: Any = plain(operation_metadata(CommitInfo(operation_parameters=parameters)))["operation_parameters"]
    assert shown == {"list": [*range(100), "and 1 more"], "whole": [*range(100)]}
    metrics = {f"m{number:04}": "1" for number in range(1_200)}
    shown = plain(operation_metadata(CommitInfo(operation_metrics=metrics)))["operation_metrics"]
    assert (len(shown), shown["..."], shown["m0099"]) == (101, "and 1,100 more", 1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (str(2**63 - 1), 2**63 - 1), (str(2**63), str(2**63)), (str(-(2**63)), str(-(2**63))), ("true", True),
        ("null", None), ("1.5", 1.5), ("a\x1b", "a\\x1b"), ('"s3://me:hunter2@lake/t"', None),
    ],
)  # fmt: skip
def test_value_of_a_parameter_is_a_number_if_dagster_can_store_it(text: str, shown: object) -> None:
    (found,) = plain(operation_metadata(CommitInfo(operation_parameters={"a": text}))).values()
    assert isinstance(found, dict)
    assert "hunter2" not in str(found)
    assert shown is None or found == {"a": shown}


def test_user_of_a_commit_is_a_name_or_an_id() -> None:
    commit = CommitInfo(user_id="7", user_metadata="job 3")
    assert plain(commit_metadata(commit)) == {"user": "7", "user_metadata": "job 3"}
    assert plain(commit_metadata(replace(commit, user_name="ada")))["user"] == "ada"


def test_plots_ordered_by_name_are_ordered_by_importance() -> None:
    entries = computed_state_metadata(state(num_deletion_vectors=0, num_deleted_records=0))
    plotted = sorted(name for name, value in entries.items() if isinstance(value, dg.IntMetadataValue))
    assert plotted == ["num_of_files", "num_records", "size_in_bytes", "size_per_file", "tombstones"]


def test_records_are_omitted_if_a_file_has_no_count() -> None:
    assert "num_records" not in computed_state_metadata(state(num_files_without_records=1))


def test_commit_has_operation_user_engine_and_metrics() -> None:
    commit = CommitInfo(
        operation="MERGE",
        user_name="ada",
        engine_info="delta-rs",
        operation_parameters={"predicate": "a = 1", "keys": '["a"]', "nothing": None},
        operation_metrics={"rows": "12"},
    )
    assert plain(commit_metadata(commit)) == {"operation": "MERGE", "user": "ada", "engine": "delta-rs"}
    assert plain(operation_metadata(commit)) == {
        "operation_parameters": {"predicate": "a = 1", "keys": ["a"], "nothing": None},
        "operation_metrics": {"rows": 12},
    }
    for metadata in (commit_metadata, operation_metadata):
        assert metadata(None) == metadata(CommitInfo()) == {}


def test_sample_is_a_table_of_files() -> None:
    sample = (
        ChangedFile(change="+", path="a|b.parquet", size=2048),
        ChangedFile(change="-", path="c.parquet", size=None),
    )
    (text,) = plain(sample_metadata(sample)).values()
    assert text == "|  | file | size |\n| - | - | - |\n| + | `a\\|b.parquet` | 2 KiB |\n| - | `c.parquet` |  |"
    assert sample_metadata(()) == {}


def test_bytes_are_readable() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1024, 1536, 5 * KIB**3, 2 * KIB**4, KIB**6)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "1.5 KiB",
        "5 GiB",
        "2 TiB",
        "1024 PiB",
    ]


def test_time_beyond_any_calendar_is_a_number() -> None:
    assert time_value(0).value == 0.0
    assert time_value(2**62).value == 2**62


ODD_COMMITS = {
    "deep": {"operation_parameters": {"a": "[" * 100_000}},
    "nested": {"operation_parameters": {"a": "[" * 500 + "]" * 500}},
    "many": {"operation_metrics": {f"m{number}": "1" for number in range(5000)}},
    "halves of characters": {"operation": "W\ud800", "operation_parameters": {"k\ud800": '"\\ud800"'}},
    "no number of JSON": {"operation_metrics": {"a": "NaN", "b": "1e999", "c": "9" * 5000}},
    "long": {"user_metadata": "x" * 1_000_000},
}


@pytest.mark.parametrize("case", ODD_COMMITS)
def test_odd_commit_becomes_metadata_that_can_be_stored(case: str) -> None:
    entries = commit_metadata(CommitInfo(**ODD_COMMITS[case]))  # type: ignore[arg-type]
    text = serialize_value(dg.AssetMaterialization("a", metadata=entries))
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    text.encode()
    assert len(text) < 50_000
    assert not [name for name in entries if name.endswith("_problem")]


def column(**changes: object) -> str:
    field = {"name": "a", "type": "long", "nullable": True, "metadata": {}, **changes}
    return json.dumps({"type": "struct", "fields": [field]})


def test_features_of_a_protocol_are_listed_once_in_order() -> None:
    found = protocol_metadata(
        Protocol(
            min_reader_version=3,
            min_writer_version=7,
            reader_features=("v2Checkpoint", "deletionVectors"),
            writer_features=("v2Checkpoint", "deletionVectors", "appendOnly", "invariants", "domainMetadata"),
        )
    )
    assert plain(found) == {
        "min_reader_version": "3",
        "min_writer_version": "7",
        "table_features": "appendOnly, deletionVectors, domainMetadata, invariants, v2Checkpoint",
    }
    assert plain(protocol_metadata(Protocol(min_reader_version=1, min_writer_version=2))).keys() == {
        "min_reader_version",
        "min_writer_version",
    }


ODD_SCHEMAS = {
    "not JSON": ("{nope", "cannot be shown: metaData.schemaString: expected JSON"),
    "no fields": ('{"type":"struct"}', "cannot be shown: metaData.schemaString: a struct without"),
    "too deep": ("[" * 100_000, "cannot be shown: metaData.schemaString: expected JSON"),
}


@pytest.mark.parametrize("case", ODD_SCHEMAS)
def test_schema_that_cannot_be_read_is_a_note(case: str) -> None:
    schema, expected = ODD_SCHEMAS[case]
    values = plain(computed_state_metadata(state(metadata=Metadata(id="t", schema_string=schema))))
    assert str(values["schema_metadata_problem"]).startswith(expected)
    assert values["num_of_files"] == 4


@pytest.mark.parametrize("comment", [7, {"a": 1}, ["x"]], ids=str)
def test_comment_of_any_type_is_shown(comment: object) -> None:
    entries = computed_state_metadata(
        state(metadata=Metadata(id="t", schema_string=column(metadata={"comment": comment})))
    )
    schema = entries["dagster/column_schema"]
    assert isinstance(schema, dg.TableSchemaMetadataValue)
    assert schema.schema.columns[0].description == str(comment)


def test_path_in_a_sample_stays_in_its_cell() -> None:
    path = "a`<img src=x>|[b](http://x)\nc"
    (text,) = plain(sample_metadata([ChangedFile(change="+", path=path, size=1)])).values()
    assert str(text).splitlines()[-1] == r"| + | `` a`<img src=x>\|[b](http://x)\nc `` | 1 B |"
    assert len(str(text).splitlines()) == 3


@pytest.mark.parametrize("computed_by", [None, "driver: 3 actions"])
def test_engine_that_computed_a_version_is_shown_if_it_is_known(computed_by: str | None) -> None:
    manifest: Any = SimpleNamespace(computed_by=computed_by)
    assert plain(computed_by_metadata(manifest)) == ({} if computed_by is None else {"computed_by": computed_by})


def test_parameters_of_a_commit_are_shown_ten_levels_deep() -> None:
    parameters = {"list": "[" * 12 + "]" * 12, "object": '{"a": ' * 12 + "1" + "}" * 12}
    shown = plain(operation_metadata(CommitInfo(operation="WRITE", operation_parameters=parameters)))
    text = json.dumps(shown["operation_parameters"])
    assert text == json.dumps({"list": nested(list, 9), "object": nested(dict, 9)})


def nested(kind: type, depth: int) -> object:
    if not depth:
        return "..."
    inner = nested(kind, depth - 1)
    return [inner] if kind is list else {"a": inner}


def test_contents_of_a_version_have_no_rows_if_their_number_is_unknown() -> None:
    assert contents_text(state()) == "90 rows in 4 files, 59.1 KiB"
    assert contents_text(state(num_files_without_records=1)) == "4 files, 59.1 KiB"


def test_properties_are_in_alphabetical_order() -> None:
    configuration = {"delta.b": "1", "delta.a": "2"}
    metadata = Metadata(id="t", schema_string=json.dumps(SCHEMA), configuration=configuration)
    text = str(_described(metadata)["properties"].value)
    assert text.index("delta.a") < text.index("delta.b")
