"""Decides which commits change the data or the schema of a table, and which only rearrange files or set properties."""

from __future__ import annotations

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.protocol.json_text import decode_json

UNKNOWN_SCHEMA = object()
"""Stands for the schema before a batch if it was not read."""


def data_changes(batch: CommitBatch, schema_before: object) -> dict[int, bool | None]:
    """Return whether each commit of a batch changes data, by version; None: only its schema before could tell.

    A commit changes data if an `add` or `remove` of it has `dataChange` not false, or if the schema differs from the
    one before. OPTIMIZE, VACUUM and SET TBLPROPERTIES do not.
    schema_before: `schemaString` before the batch; None: there was no table; UNKNOWN_SCHEMA.
    Errors: CorruptLogError naming file and line.
    Source: PROTOCOL.md, Add File and Remove File; Change Metadata.
    """
    found: dict[int, bool | None] = {commit.version: commit.has_data_change for commit in batch.commits}
    schemas = {commit.version: values.get("schemaString") for commit, _, _, values in batch.actions("metaData")}
    before = schema_before
    for version, schema in schemas.items():  # the last one of each commit, as in the replay
        if before is UNKNOWN_SCHEMA:
            found[version] = found[version] or None
        elif not _is_same(before, schema):
            found[version] = True
        before = schema
    return found


def _is_same(one: object, other: object) -> bool:
    """Return whether two texts of schemas are the same JSON: writers differ in white space and order."""
    if one == other or not (isinstance(one, str) and isinstance(other, str)):
        return one == other
    try:
        return bool(decode_json(one) == decode_json(other))
    except ValueError:
        return False
