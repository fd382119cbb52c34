"""The columns that row changes have besides those of the table. No Spark."""

from __future__ import annotations

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
CHANGE_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
"""Source: PROTOCOL.md, Reader Requirements for AddCDCFile."""

INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
CHANGE_TYPES = (INSERT, DELETE, PREIMAGE, POSTIMAGE)
"""The values of `_change_type`."""
