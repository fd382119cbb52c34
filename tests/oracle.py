"""The oracle: action reconciliation in plain Python, the reference for every other replay.

Source: PROTOCOL.md, Action Reconciliation; Delta's `InMemoryLogReplay`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from tests.builders import Action

Key = tuple[str, str | None]


@dataclass(frozen=True)
class OracleState:
    """The newest action of each kind and key at one version; includes expired tombstones."""

    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    files: dict[Key, dict[str, Any]] = field(default_factory=dict)
    tombstones: dict[Key, dict[str, Any]] = field(default_factory=dict)
    transactions: dict[str, dict[str, Any]] = field(default_factory=dict)
    domains: dict[str, dict[str, Any]] = field(default_factory=dict)

    def after(self, commit: Iterable[Action]) -> OracleState:
        """Return the state after one more commit. If it adds and removes the same file, the add wins."""
        state = replace(
            self,
            files=dict(self.files),
            tombstones=dict(self.tombstones),
            transactions=dict(self.transactions),
            domains=dict(self.domains),
        )
        in_order = sorted(commit, key=lambda action: "add" in action)
        for action in in_order:
            state = state._applied(action)
        return state

    def _applied(self, action: Action) -> OracleState:
        match action:
            case {"add": dict(add)}:
                self.tombstones.pop(key(add), None)
                self.files[key(add)] = add
            case {"remove": dict(remove)}:
                self.files.pop(key(remove), None)
                self.tombstones[key(remove)] = remove
            case {"txn": dict(txn)}:
                self.transactions[txn["appId"]] = txn
            case {"domainMetadata": dict(domain)} if domain["removed"]:
                self.domains.pop(domain["domain"], None)
            case {"domainMetadata": dict(domain)}:
                self.domains[domain["domain"]] = domain
            case {"protocol": dict(protocol)}:
                return replace(self, protocol=protocol)
            case {"metaData": dict(metadata)}:
                return replace(self, metadata=metadata)
        return self

    def actions(self, min_file_retention_timestamp: int) -> list[Action]:
        """Return the state as actions, without tombstones up to that time (0: all tombstones)."""
        least = min_file_retention_timestamp
        kept = [r for r in self.tombstones.values() if least <= 0 or (r.get("deletionTimestamp") or 0) > least]
        found = [("protocol", self.protocol), ("metaData", self.metadata)]
        found += [("add", add) for add in self.files.values()] + [("remove", remove) for remove in kept]
        found += [("txn", txn) for txn in self.transactions.values()]
        found += [("domainMetadata", domain) for domain in self.domains.values()]
        return [{name: values} for name, values in found if values is not None]

    def counts(self, min_file_retention_timestamp: int) -> dict[str, Any]:
        """Return the counts of the computed state."""
        vectors = [add["deletionVector"] for add in self.files.values() if add.get("deletionVector")]
        records = [_records(add) for add in self.files.values()]
        return {
            "num_files": len(self.files),
            "size_in_bytes": sum(add["size"] for add in self.files.values()),
            "num_records": None if None in records else sum(records),
            "num_deletion_vectors": len(vectors),
            "num_deleted_records": sum(vector["cardinality"] for vector in vectors),
            "num_tombstones": sum("remove" in action for action in self.actions(min_file_retention_timestamp)),
            "set_transactions": {name: txn["version"] for name, txn in self.transactions.items()},
            "domain_metadata": {name: domain["configuration"] for name, domain in self.domains.items()},
            "table_id": self.metadata and self.metadata["id"],
        }


def key(action: dict[str, Any]) -> Key:
    """Return the logical file of an add or a remove: its path decoded once, and the id of its deletion vector.

    A path that is not UTF-8 when it is decoded stays as it is.
    """
    path, vector = action["path"], action.get("deletionVector")
    with suppress(UnicodeDecodeError):
        path = unquote(path, errors="strict")
    if not vector:
        return path, None
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return path, f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def _records(add: dict[str, Any]) -> int | None:
    """Return the number of rows by the statistics; None: unknown, also if fewer than are deleted."""
    stated = json.loads(add.get("stats") or "{}").get("numRecords")
    deleted = (add.get("deletionVector") or {"cardinality": 0})["cardinality"]
    return stated if stated is not None and 0 <= deleted <= stated else None


def replay(commits: Sequence[Iterable[Action]]) -> list[OracleState]:
    """Return the state of each version."""
    states: list[OracleState] = []
    for commit in commits:
        states.append((states[-1] if states else OracleState()).after(commit))
    return states


def comparable(actions: Iterable[Action]) -> list[str]:
    """Return actions as sorted texts, without null fields."""
    return sorted(json.dumps(_without_nulls(action), sort_keys=True) for action in actions)


def comparable_rows(frame: Any) -> list[str]:
    """Return the actions in a DataFrame as `comparable`."""
    return comparable(frame.toArrow().to_pylist(maps_as_pydicts="strict"))


def counts_of(state: Any) -> dict[str, Any]:
    """Return the counts of a computed state, with the keys of `OracleState.counts`."""
    return {
        "num_files": state.num_of_files,
        "size_in_bytes": state.size_in_bytes,
        "num_records": state.num_records,
        "num_deletion_vectors": state.num_deletion_vectors,
        "num_deleted_records": state.num_deleted_records,
        "num_tombstones": state.num_of_removes,
        "set_transactions": {txn.app_id: txn.version for txn in state.set_transactions},
        "domain_metadata": {domain.domain: domain.configuration for domain in state.domain_metadata},
        "table_id": state.metadata and state.metadata.id,
    }


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
