"""Descriptions of the columns of `all_files` and `tombstones`, shown beside their types."""

from __future__ import annotations

from collections.abc import Mapping

FILE_COLUMNS: Mapping[str, str] = {
    "path": "The data file: relative to the table's folder or a URI, with percent escapes as in the log.",
    "partitionValues": "The value of each partition column, as text; null for SQL's NULL.",
    "size": "The size of the file in bytes.",
    "modificationTime": "When the file was written, in ms since the epoch.",
    "deletionTimestamp": "When the file was removed, in ms since the epoch. Its retention begins then.",
    "dataChange": "False: the commit only rearranged rows that were there, as OPTIMIZE does.",
    "extendedFileMetadata": "Whether partitionValues, size and tags are set.",
    "stats": "Statistics of the file as JSON: the number of records; the least and greatest value and nulls by column.",
    "tags": "What the writer noted about the file.",
    "deletionVector": "Which rows of the file are deleted; null: none.",
    "baseRowId": "The row id of the first row, where row tracking is enabled.",
    "defaultRowCommitVersion": "The version that the rows come from unless they say otherwise (row tracking).",
    "clusteringProvider": "What clustered the file; null: it is not clustered.",
}
"""By name, in both assets. Source: PROTOCOL.md, Add File and Remove File."""
