"""The columns of the tables that users read: their names, types and order."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from deltasnap_core.replay.spark.reading.schemas import ALL_FILES_SCHEMA, STATE, TOMBSTONES_SCHEMA
from deltasnap_core.rules.file_actions import ADDS, REMOVES
from deltasnap_core.scan.tables.history_frame import HISTORY
from deltasnap_core.scan.tables.log_tables import _LOG_FILES, _VERSIONS
from deltasnap_core.store.fleet.fleet_row import FLEET_SCHEMA, HISTORY_SCHEMA
from deltasnap_core.store.rows.spark_rows import _DELETION_TIME, _KEY_FIELD, _VERSION_FIELD

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
        _VERSIONS,
        "struct<version:bigint,ms:bigint,has_commit:boolean,has_checkpoint:boolean,loadable:boolean,why_not:string>",
    ),
    "log_files": (
        _LOG_FILES,
        "struct<path:string,kind:string,version:bigint,size:bigint,ms:bigint,in_segment:boolean>",
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
