"""The golden tables: the expected facts of each version, and the same facts of a snapshot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltasnap_core import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from deltasnap_core import Snapshot

ERRORS: Mapping[str, type[Exception] | tuple[type[Exception], ...]] = {
    "no_table": DeltaTableNotFoundError,
    "version_not_found": (VersionNotFoundError, VersionGapError),
    "version_gap": (VersionGapError, VersionNotFoundError),
    "missing_protocol": ActionNotFoundError,
    "missing_metadata": ActionNotFoundError,
    "unsupported_protocol": UnsupportedProtocolError,
    "corrupt": CorruptLogError,
}


@dataclass(frozen=True)
class GoldenTable:
    """One golden table."""

    name: str
    path: Path
    expected: Mapping[str, Any]

    @property
    def states(self) -> dict[int, Mapping[str, Any]]:
        """The expected state of each version that has one, including the latest."""
        found = {int(version): state for version, state in self.expected["versions"].items() if "error" not in state}
        latest = self.expected["latest"]
        return found if "error" in latest else {**found, latest["version"]: latest}

    @property
    def refusals(self) -> dict[int, str]:
        """The expected error category of each version without a state."""
        wrong = {**self.expected["versions"], **self.expected["refused_versions"]}
        return {int(version): state["error"] for version, state in wrong.items() if "error" in state}

    @property
    def latest_refusal(self) -> str | None:
        """The expected error category of the latest version; None: it has a state."""
        error: str | None = self.expected["latest"].get("error")
        return error


@cache
def load_golden_tables(folder: Path) -> tuple[GoldenTable, ...]:
    """Return all golden tables, by name."""
    return tuple(
        GoldenTable(file.stem, folder / "tables" / file.stem, json.loads(file.read_text(encoding="utf-8")))
        for file in sorted((folder / "expected").glob("*.json"))
    )


def expected_facts(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected facts of a version, in the form of `facts`."""
    return {
        "version": state["version"],
        "files": _sorted(_expected_file(file) for file in state["files"]),
        "tombstones": _sorted(_expected_tombstone(tombstone) for tombstone in state["tombstones"]),
        "protocol": _comparable_protocol(state["protocol"]),
        "metadata": _comparable_metadata(state["metadata"]),
        "set_transactions": state["set_transactions"],
        "set_transactions_last_updated": state["set_transactions_last_updated"],
        "domain_metadata": state["domain_metadata"],
        "log_segment": {key: value for key, value in state["log_segment"].items() if key != "checkpoint_spec"},
    }


def facts(snapshot: Snapshot) -> dict[str, Any]:
    """Return the facts of a snapshot, from one Spark job."""
    rows = snapshot.state.toArrow().to_pylist(maps_as_pydicts="strict")
    by_kind: dict[str, list[Any]] = {name: [row[name] for row in rows if row[name] is not None] for name in rows[0]}
    (protocol,), (metadata,) = by_kind["protocol"], by_kind["metaData"]
    assert all(sum(value is not None for value in row.values()) == 1 for row in rows)
    assert snapshot.protocol.to_json() == {key: value for key, value in protocol.items() if value is not None}
    return {
        "version": snapshot.version,
        "files": _sorted(_file(add) for add in by_kind["add"]),
        "tombstones": _sorted(_tombstone(remove) for remove in by_kind["remove"]),
        "protocol": _comparable_protocol(protocol),
        "metadata": _comparable_metadata(metadata),
        "set_transactions": {txn["appId"]: txn["version"] for txn in by_kind["txn"]},
        "set_transactions_last_updated": {txn["appId"]: txn["lastUpdated"] for txn in by_kind["txn"]},
        "domain_metadata": {domain["domain"]: domain["configuration"] for domain in by_kind["domainMetadata"]},
        "log_segment": _segment(snapshot),
    }


def expected_counts(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected counts of a version."""
    return {
        "num_files": state["num_files"],
        "size_in_bytes": state["size_in_bytes"],
        "num_records": state["num_records"],
        "num_deletion_vectors": state["num_deletion_vectors"],
        "num_deleted_records": state["num_deleted_records"],
        "num_tombstones": len(state["tombstones"]),
        "set_transactions": state["set_transactions"],
        "domain_metadata": state["domain_metadata"],
        "table_id": state["metadata"]["id"],
    }


def _expected_file(file: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("dv_unique_id", "dv_cardinality", "size", "partitionValues", "modificationTime", "num_records")
    return {"path": _plain_path(file["path_raw"]), **{key: file[key] for key in kept}}


def _expected_tombstone(tombstone: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("dv_unique_id", "deletionTimestamp", "size")
    return {"path": _plain_path(tombstone["path_raw"]), **{key: tombstone[key] for key in kept}}


def _file(add: Mapping[str, Any]) -> dict[str, Any]:
    vector, stats = add["deletionVector"], json.loads(add["stats"] or "{}")
    return {
        "path": _plain_path(add["path"]),
        "dv_unique_id": _unique_id(vector),
        "dv_cardinality": None if vector is None else vector["cardinality"],
        "size": add["size"],
        "partitionValues": add["partitionValues"],
        "modificationTime": add["modificationTime"],
        "num_records": stats.get("numRecords"),
    }


def _tombstone(remove: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": _plain_path(remove["path"]),
        "dv_unique_id": _unique_id(remove["deletionVector"]),
        "deletionTimestamp": remove["deletionTimestamp"],
        "size": remove["size"],
    }


def _unique_id(vector: Mapping[str, Any] | None) -> str | None:
    if vector is None:
        return None
    offset = "" if vector["offset"] is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def _plain_path(path: str) -> str:
    """Return a decoded path; local paths without their scheme, which has three spellings."""
    return unquote(re.sub(r"^file:/+", "/", path))


def _comparable_protocol(protocol: Mapping[str, Any]) -> dict[str, Any]:
    features = ("readerFeatures", "writerFeatures")
    return {**protocol, **{key: protocol[key] and sorted(protocol[key]) for key in features}}


def _comparable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    schema = metadata["schemaString"]
    return {**metadata, "schemaString": None if schema is None else json.loads(schema)}


def _segment(snapshot: Snapshot) -> dict[str, Any]:
    segment = snapshot.log_segment
    checkpoint = segment.checkpoint_provider
    contents = snapshot.log.loaded.checkpoint
    return {
        "checkpoint_files": sorted(file.name for file in checkpoint.files),
        "checkpoint_kind": checkpoint.kind,
        "checkpoint_version": None if checkpoint.is_empty else checkpoint.version,
        "compaction_files": [file.name for file in segment.compactions],
        "delta_files": [file.path.partition("/_delta_log/")[2] for file in segment.deltas],
        "sidecar_files": sorted(sidecar.file.name for sidecar in contents.sidecars) if contents else [],
    }


def _sorted(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["path"], row["dv_unique_id"] or ""))
