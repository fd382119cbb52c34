"""The Spark schemas of the actions of a log.

Every field is nullable. Required fields are checked where they are used, with an error that names the file.
Source: PROTOCOL.md, Actions; Checkpoint Schema.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from deltasnap_core.rules import file_actions

_STRING_MAP = MapType(StringType(), StringType())


def _struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _spark_struct(kind: pa.StructType) -> StructType:
    found = from_arrow_type(kind)
    assert isinstance(found, StructType)
    return found


DELETION_VECTOR, ADD, REMOVE = map(_spark_struct, (file_actions.DELETION_VECTOR, file_actions.ADD, file_actions.REMOVE))
METADATA = _struct(
    id=StringType(),
    name=StringType(),
    description=StringType(),
    format=_struct(provider=StringType(), options=_STRING_MAP),
    schemaString=StringType(),
    partitionColumns=ArrayType(StringType()),
    configuration=_STRING_MAP,
    createdTime=LongType(),
)
PROTOCOL = _struct(
    minReaderVersion=IntegerType(),
    minWriterVersion=IntegerType(),
    readerFeatures=ArrayType(StringType()),
    writerFeatures=ArrayType(StringType()),
)
SET_TRANSACTION = _struct(appId=StringType(), version=LongType(), lastUpdated=LongType())
DOMAIN_METADATA = _struct(domain=StringType(), configuration=StringType(), removed=BooleanType())

FILE_ACTION_COLUMNS = _struct(add=ADD, remove=REMOVE)
"""One of the two is set in each row."""

STATE = _struct(
    add=ADD, remove=REMOVE, metaData=METADATA, protocol=PROTOCOL, txn=SET_TRANSACTION, domainMetadata=DOMAIN_METADATA
)
"""One of the six is set in each row."""

ALL_FILES_SCHEMA = ADD
"""The columns of `Snapshot.all_files`, as in Delta's `add`; `AddFile` describes them.

path (string), partitionValues (map of string to string), size (long, bytes), modificationTime (long, ms since the
epoch), dataChange (boolean), stats (string, JSON), tags (map of string to string), deletionVector (struct:
storageType, pathOrInlineDv, offset, sizeInBytes, cardinality, maxRowIndex), baseRowId, defaultRowCommitVersion (long),
clusteringProvider (string). Every column is nullable; path is never null. Source: PROTOCOL.md, Add File.
"""
TOMBSTONES_SCHEMA = REMOVE
"""The columns of `Snapshot.tombstones`, as in Delta's `remove`; `RemoveFile` describes them.

path (string), deletionTimestamp (long, ms since the epoch), dataChange, extendedFileMetadata (boolean), then as in
`ALL_FILES_SCHEMA`: partitionValues, size, stats, tags, deletionVector, baseRowId, defaultRowCommitVersion. Every
column is nullable; path is never null. Source: PROTOCOL.md, Remove File.
"""
