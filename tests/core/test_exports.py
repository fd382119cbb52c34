"""The API: its names and words, the defaults of arguments, and the columns of its tables."""

from __future__ import annotations

import inspect
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import deltasnap_assets
import deltasnap_core
from deltasnap_core import (
    DeltaHistoryManager,
    DeltaLog,
    MetadataTables,
    ProblemKind,
    SnapshotOptions,
    SnapshotStore,
    TableLog,
    support,
)
from deltasnap_core.protocol.log_files.file_names import CheckpointKind, LogFileKind
from deltasnap_core.replay.spark.reading.schemas import ALL_FILES_SCHEMA, STATE, TOMBSTONES_SCHEMA
from deltasnap_core.rules.file_actions import ADDS, REMOVES
from deltasnap_core.scan.tables.history_frame import HISTORY
from deltasnap_core.scan.tables.log_tables import LOG_FILES, VERSIONS
from deltasnap_core.store.fleet.fleet_row import FLEET_SCHEMA, HISTORY_SCHEMA
from deltasnap_core.store.fleet.table_level import TableLevel
from deltasnap_core.store.rows.spark_rows import _DELETION_TIME, _KEY_FIELD, _VERSION_FIELD


@pytest.mark.parametrize("package", [deltasnap_core, support, deltasnap_assets], ids=lambda package: package.__name__)
def test_every_exported_name_can_be_loaded(package: ModuleType) -> None:
    missing = [name for name in package.__all__ if getattr(package, name, None) is None]
    assert missing == []
    assert {*package.__all__} <= {*dir(package)}
    assert not hasattr(package, "no_such_name")


def test_public_names_of_the_core_are_few() -> None:
    assert len(vars(deltasnap_core)["__all__"]) <= 50


DEFAULTS: dict[object, dict[str, object]] = {
    DeltaLog.update: {"staleness_acceptable": False},
    DeltaLog.get_snapshot_at: {"can_return_last_commit": False, "can_return_earliest_commit": False},
    DeltaHistoryManager.check_version_exists: {"must_be_recreatable": True, "allow_out_of_range": False},
    DeltaHistoryManager.get_active_commit_at_time: {
        "can_return_last_commit": False,
        "must_be_recreatable": True,
        "can_return_earliest_commit": False,
    },
    MetadataTables.vacuum_candidates: {"list_files": False},
    SnapshotOptions: {
        "load_stats": True,
        "check_pages": False,
        "cache_state": True,
        "engine": "auto",
        "cached_counts_from": 50_000,
    },
    SnapshotStore.open: {"engine": "auto", "check_pages": False},
    SnapshotStore.fleet: {"keep": False},
    SnapshotStore.prune: {"keep_generations": 1, "min_age_ms": 24 * 3_600_000},
    SnapshotStore.read_arrow: {"kind": "all_files"},
    SnapshotStore.write_range: {"materialize_as": "view"},
    SnapshotStore.write_versions: {"materialize_as": "view"},
    TableLog.condition: {"read_pages": True},
    TableLog.list: {"first": 0},
}


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda function: function.__qualname__)
def test_arguments_of_the_api_keep_their_defaults(function: Any) -> None:
    parameters = inspect.signature(function).parameters.values()
    found = {each.name: each.default for each in parameters if isinstance(each.default, bool | int | str)}
    assert found == DEFAULTS[function]


WORDS: dict[type[Enum], str] = {
    ProblemKind: (
        "no_table, access_denied, storage_failed, catalog_failed, missing_commit, unneeded_commit, corrupt_commit, "
        "empty_commit, missing_action, unsupported_protocol, invalid_protocol, broken_schema, unsupported_type_change, "
        "corrupt_checkpoint, wrong_checkpoint, broken_hint, wrong_checksum, lost_versions, "
        "unpublished_commit, repeated_metadata, repeated_protocol, repeated_transaction, repeated_domain_metadata, "
        "repeated_add, repeated_remove, contradictory_commit, repeated_partition_column, decreasing_timestamp, "
        "future_timestamp, incomplete_enablement, negative_number, failed_check, unread_facts, failed_run, "
        "no_wanted_version, stale, future_commit, damaged_store, lost_manifest, lost_files, unshared_store, "
        "unreadable_store, later_store, damaged_status, lost_status, other_table, never_polled, old_poll, future_poll, "
        "old_examination, never_checked, unchecked_versions, not_followed, lost_table"
    ),
    CheckpointKind: "classic, multipart, uuid",
    LogFileKind: "commit, staged commit, checkpoint, log compaction, version checksum",
    TableLevel: "broken, unknown, warned, stale, healthy",
}


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_words_of_a_kind_keep_their_spelling_and_order(kind: type[Enum]) -> None:
    assert ", ".join(str(each.value) for each in kind) == WORDS[kind]


TEXTS = "map<string,string>"
VECTOR = (
    "deletionVector:struct<storageType:string,pathOrInlineDv:string,offset:int,sizeInBytes:int,"
    "cardinality:bigint,maxRowIndex:bigint>"
)
ADD = (
    f"struct<path:string,partitionValues:{TEXTS},size:bigint,modificationTime:bigint,dataChange:boolean,stats:string,"
    f"tags:{TEXTS},{VECTOR},baseRowId:bigint,defaultRowCommitVersion:bigint,clusteringProvider:string>"
)
REMOVE = (
    "struct<path:string,deletionTimestamp:bigint,dataChange:boolean,extendedFileMetadata:boolean,"
    f"partitionValues:{TEXTS},size:bigint,stats:string,tags:{TEXTS},{VECTOR},baseRowId:bigint,"
    "defaultRowCommitVersion:bigint>"
)
COLUMNS = {
    "all_files": (ALL_FILES_SCHEMA, ADD),
    "tombstones": (TOMBSTONES_SCHEMA, REMOVE),
    "state": (
        STATE,
        f"struct<add:{ADD},remove:{REMOVE},metaData:struct<id:string,name:string,description:string,"
        f"format:struct<provider:string,options:{TEXTS}>,schemaString:string,partitionColumns:array<string>,"
        f"configuration:{TEXTS},createdTime:bigint>,protocol:struct<minReaderVersion:int,minWriterVersion:int,"
        "readerFeatures:array<string>,writerFeatures:array<string>>,"
        "txn:struct<appId:string,version:bigint,lastUpdated:bigint>,"
        "domainMetadata:struct<domain:string,configuration:string,removed:boolean>>",
    ),
    "history": (
        from_arrow_schema(HISTORY),
        "struct<version:bigint,timestamp:timestamp,userId:string,userName:string,operation:string,"
        f"operationParameters:{TEXTS},job:{TEXTS},notebook:{TEXTS},clusterId:string,readVersion:bigint,"
        f"isolationLevel:string,isBlindAppend:boolean,operationMetrics:{TEXTS},userMetadata:string,tags:{TEXTS},"
        "engineInfo:string,txnId:string>",
    ),
    "versions": (
        from_arrow_schema(VERSIONS),
        "struct<version:bigint,timestamp:timestamp,has_commit:boolean,has_checkpoint:boolean,loadable:boolean,"
        "why_not:string>",
    ),
    "log_files": (
        from_arrow_schema(LOG_FILES),
        "struct<path:string,kind:string,version:bigint,size:bigint,modification_time:timestamp,in_segment:boolean>",
    ),
    "rows of a store": (
        StructType([_VERSION_FIELD, _KEY_FIELD, *_DELETION_TIME]),
        "struct<version:bigint,key:bigint,deletionTimestamp:bigint>",
    ),
}


@pytest.mark.parametrize("table", COLUMNS)
def test_columns_of_a_table_keep_their_names_types_and_order(table: str) -> None:
    schema, expected = COLUMNS[table]
    assert schema.simpleString() == expected


def test_driver_and_spark_have_the_same_columns() -> None:
    assert (ADDS.names, REMOVES.names) == (ALL_FILES_SCHEMA.names, TOMBSTONES_SCHEMA.names)


def test_columns_of_a_fleet_keep_their_names_types_and_order() -> None:
    found = {field.name: str(field.type) + ("" if field.nullable else " not null") for field in HISTORY_SCHEMA}
    text, known_text, number, texts = "string", "string not null", "int64", "list<item: string> not null"
    assert found == {
        "taken_at_ms": "int64 not null",
        "table": known_text,
        "condition": known_text,
        "reason": known_text,
        "check": text,
        "advice": known_text,
        **dict.fromkeys(("polled_at_ms", "last_commit_ms", "age_ms", "usual_pause_ms"), number),
        "age_ratio": "double",
        **dict.fromkeys(("latest_version", "stored_version", "versions_behind"), number),
        "num_versions": "int64 not null",
        **dict.fromkeys(("num_records", "num_files", "size_in_bytes", "growth_7d_bytes", "growth_30d_bytes"), number),
        "small_file_ratio": "double",
        **dict.fromkeys(("vacuum_bytes", "time_travel_bytes", "commits_since_checkpoint"), number),
        "features": texts,
        "owners": texts,
        "path": text,
    }
    assert [*found][1:] == FLEET_SCHEMA.names
