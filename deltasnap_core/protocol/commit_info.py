"""CommitInfo: the author, time and operation of a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import model_validator

from deltasnap_core.protocol.json_records import JsonRecord, is_json_kind, texts, whole_number
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo(JsonRecord):
    """The provenance of a commit, best effort: a writer may store any JSON in it.

    version: as in the action, usually None; the file name is authoritative.
    timestamp, in_commit_timestamp: ms since the epoch.
    operation_parameters, operation_metrics, tags: by name; values that are not strings become JSON text.
    job, notebook: JSON objects.
    extra: all other fields, and known fields whose value has an unexpected type, as in the log.
    Source: PROTOCOL.md, Commit Provenance Information; Delta's `CommitInfo`.
    """

    json_name = "commitInfo"

    version: int | None = None
    in_commit_timestamp: int | None = None
    timestamp: int | None = None
    user_id: str | None = None
    user_name: str | None = None
    operation: str | None = None
    operation_parameters: Mapping[str, str | None] | None = None
    job: Mapping[str, Any] | None = None
    notebook: Mapping[str, Any] | None = None
    cluster_id: str | None = None
    read_version: int | None = None
    isolation_level: str | None = None
    is_blind_append: bool | None = None
    operation_metrics: Mapping[str, str | None] | None = None
    user_metadata: str | None = None
    tags: Mapping[str, str | None] | None = None
    engine_info: str | None = None
    txn_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_extra(cls, values: object) -> object:
        """Return the fields of an action with the unknown ones in `extra`."""
        if not isinstance(values, Mapping):
            return values
        found: dict[str, Any] = {"extra": {}}
        for name, value in values.items():
            kind = _KINDS.get(name, type(None))
            known = whole_number(value) if kind is int else value
            if name in _KINDS and (value is None or is_json_kind(known, kind)):
                found[name] = texts(known) if name in _TEXT_MAPS and known is not None else known
            else:
                found["extra"][name] = value
        return found

    @property
    def is_merge_without_changes(self) -> bool:
        """Whether this is a `MERGE` that inserted, updated and deleted no row, by its metrics: it only copied rows.

        Source: Delta's `CDCReader.shouldSkipFileActionsInCommit`.
        """
        metrics = self.operation_metrics or {}
        return self.operation == "MERGE" and all(metrics.get(name) == "0" for name in _MERGED_ROWS)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object: known fields that are not None, then the extra ones that are none of these."""
        values = self.known_to_json()
        return values | {name: value for name, value in self.extra.items() if name not in values}

    def known_to_json(self) -> dict[str, Any]:
        """Return the known fields that are not None, each of its type."""
        values = JsonRecord.to_json(replace(self, extra={}))
        del values["extra"]
        return values


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("version", "inCommitTimestamp", "timestamp", "readVersion"), int),
    **dict.fromkeys(("userId", "userName", "operation", "clusterId", "isolationLevel"), str),
    **dict.fromkeys(("userMetadata", "engineInfo", "txnId"), str),
    **dict.fromkeys(("operationParameters", "job", "notebook", "operationMetrics", "tags"), Mapping),
    "isBlindAppend": bool,
}
_MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
_TEXT_MAPS = frozenset({"operationParameters", "operationMetrics", "tags"})
