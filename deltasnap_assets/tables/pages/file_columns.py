"""Descriptions of the columns of `all_files` and `tombstones`, shown next to their types."""

from __future__ import annotations

from collections.abc import Mapping

FILE_COLUMNS: Mapping[str, str] = {
    "path": "The data file: relative to the table's folder or a URI, with percent escapes as in the log.",
    "partitionValues": "The value of each partition column, as text; null for SQL's NULL.",
    "size": "The size of the file in bytes.",
    "modificationTime": "When the file was written, in ms since the epoch.",
    "deletionTimestamp": "When the file was removed, in ms since the epoch. Its retention starts then.",
    "dataChange": "False: the commit only rearranged existing rows, as OPTIMIZE does, or a checkpoint has the file.",
    "extendedFileMetadata": "Whether partitionValues, size and tags are set.",
    "stats": "Statistics of the file as JSON: the number of records; minimum, maximum and null count by column.",
    "tags": "Tags that the writer set on the file.",
    "deletionVector": "The deletion vector: which rows of the file are deleted; null: none.",
    "baseRowId": "The row id of the first row, where row tracking is enabled.",
    "defaultRowCommitVersion": "The version that committed the rows, unless a row has its own (row tracking).",
    "clusteringProvider": "The clustering provider of the file; null: not clustered.",
}
"""By name, in both assets. Source: PROTOCOL.md, Add File and Remove File."""
