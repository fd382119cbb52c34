"""The non-file actions in force: protocol, metadata, transactions and domains. Without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoints.checkpoint_contents import (
    CheckpointContents,
    open_checkpoint,
    read_non_file_actions,
)
from deltasnap_core.log.commits.action_lines import decode_line, lines_with
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH, CommitBatch
from deltasnap_core.log.commits.commit_reader import COMMITS_AT_ONCE, read_commits
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.properties.table_config import set_transaction_retention_ms
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_features import properties_in_force
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.log_store import LogStore

_log = logger_of(__name__)
_ONCE = ("protocol", "metaData")
_READERS: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "protocol": Protocol.from_json,
    "metaData": Metadata.from_json,
    "txn": SetTransaction.from_json,
    "domainMetadata": DomainMetadata.from_json,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFileActions:
    """The newest of each non-file action, at one version.

    protocol, metadata: None: the log has none (an error for a snapshot, but not here).
    transactions: by application id; the latest one wins, even if its version is lower.
    domains:      by name; removed domains are left out.
    Source: PROTOCOL.md, Action Reconciliation.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)

    @classmethod
    def of(cls, state: SnapshotState) -> NonFileActions:
        """Return the non-file actions of a computed state."""
        return cls(
            protocol=state.protocol,
            metadata=state.metadata,
            transactions={transaction.app_id: transaction for transaction in state.set_transactions},
            domains={domain.domain: domain for domain in state.domain_metadata},
        )

    @property
    def configuration(self) -> Mapping[str, str]:
        """The `properties_in_force`; empty without metadata."""
        return properties_in_force(self.protocol, self.metadata)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each action as a row with one column, in the protocol's JSON: `{"protocol": {...}}`."""
        actions: list[tuple[str, Any]] = [("protocol", self.protocol), ("metaData", self.metadata)]
        actions += [("txn", transaction) for transaction in self.transactions.values()]
        actions += [("domainMetadata", domain) for domain in self.domains.values()]
        yield from ({name: action.to_json()} for name, action in actions if action is not None)

    def advanced(self, actions: Sequence[Any]) -> NonFileActions:
        """Return the state after further actions, given in log order. Delta's `InMemoryLogReplay.append`."""
        if not actions:
            return self
        protocol, metadata = self.protocol, self.metadata
        transactions, domains = dict(self.transactions), dict(self.domains)
        for action in actions:
            match action:
                case Protocol():
                    protocol = action
                case Metadata():
                    metadata = action
                case SetTransaction():
                    transactions[action.app_id] = action
                case DomainMetadata(removed=True):
                    domains.pop(action.domain, None)
                case DomainMetadata():
                    domains[action.domain] = action
        return replace(self, protocol=protocol, metadata=metadata, transactions=transactions, domains=domains)

    def advanced_by(self, batch: CommitBatch) -> NonFileActions:
        """Return the state after further commits. Errors: CorruptLogError naming file and line."""
        by_version = non_file_actions_by_version(batch)
        return self.advanced([action for version in sorted(by_version) for action in by_version[version]])

    def without_transactions(self, dropped: Mapping[str, SetTransaction]) -> NonFileActions:
        """Return the state without certain transactions (by application id): these objects, not equal ones."""
        if not dropped:
            return self
        kept = {name: txn for name, txn in self.transactions.items() if dropped.get(name) is not txn}
        return replace(self, transactions=kept)

    def without_expired_transactions(self, timestamp_ms: int) -> NonFileActions:
        """Return the state without the transactions that have expired at a time (ms since the epoch).

        If `delta.setTransactionRetentionDuration` is set, a transaction expires when it reaches that age, or if it has
        no time.
        Source: Delta's `InMemoryLogReplay`.
        """
        retention = None if self.metadata is None else set_transaction_retention_ms(self.metadata.configuration)
        if retention is None:
            return self
        earliest = timestamp_ms - retention
        times = {name: txn.last_updated for name, txn in self.transactions.items()}
        kept = {name: self.transactions[name] for name, time in times.items() if time is not None and time > earliest}
        return replace(self, transactions=kept)


def load_non_file_actions(store: LogStore, contents: CheckpointContents | None, batch: CommitBatch) -> NonFileActions:
    """Return the newest non-file actions of a checkpoint and the commits after it.

    Reads only the row groups of the checkpoint that contain such actions.
    Errors: CorruptLogError naming file and line.
    """
    found = NonFileActions()
    if contents is not None:
        actions = [*_actions_of_checkpoint(store, contents)]
        _check_complete(contents, actions)
        found = found.advanced(actions)
    return found.advanced_by(batch)


def _check_complete(contents: CheckpointContents, actions: Sequence[Any]) -> None:
    """Raise CorruptLogError if a checkpoint has several protocol or metaData actions, or if one of JSON has none.

    A file of JSON may be cut off at the end of a line. If a Parquet file lacks an action, its writer left it out: the
    version has none. The adds of a partitioned table need a column of partition values: without it, all would be null.
    Source: PROTOCOL.md, Checkpoints.
    """
    kinds = [type(action) for action in actions]
    for kind, name in ((Protocol, "protocol"), (Metadata, "metaData")):
        count = kinds.count(kind)
        if count > 1 or (not count and contents.lines_path is not None):
            reason = f"expected one {name} action in the checkpoint, found {count or 'none'}"
            raise CorruptLogError(path=contents.paths[0], reason=reason)
    if any(isinstance(action, Metadata) and action.partition_columns for action in actions):
        for part in contents.files_with_file_actions:
            if part.lacks_partition_values:
                raise CorruptLogError(path=part.file.path, reason="expected add.partitionValues, found no such column")


def non_file_actions_by_version(batch: CommitBatch) -> dict[int, list[Any]]:
    """Return the non-file actions of each commit, in commit order. Versions without any are left out.

    Logs a warning if a commit has several protocol or metaData actions. The last one counts, as in Delta's
    `InMemoryLogReplay.append`.
    Errors: CorruptLogError naming file and line.
    """
    found: dict[int, list[Any]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for commit, number, name, values in batch.actions(*_READERS):
        found.setdefault(commit.version, []).append(_typed(commit.file.path, number, name, values))
        counts[commit.file.path, name] += name in _ONCE
    for (path, name), count in counts.items():
        if count > 1:
            _log.warning("The commit %s has %d %s actions: the last one is used", redacted(path), count, name)
    return found


def _actions_of_checkpoint(store: LogStore, contents: CheckpointContents) -> Iterator[Any]:
    for part in contents.top_level:
        for column, value in read_non_file_actions(store, part):
            yield _typed(part.file.path, None, column, value)
    if contents.lines_path is not None:
        for row in lines_with(contents.lines, *_READERS).to_pylist():
            number, name = row["line_number"], row["action"]
            values = decode_line(contents.lines_path, number, row["line"])[name]
            yield _typed(contents.lines_path, number, name, values)


def _typed(path: str, line: int | None, name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptLogError(path=path, line=line, reason=f"{name}: {error}") from error


def newest_protocol_and_metadata(store: LogStore, segment: LogSegment) -> tuple[Protocol | None, Metadata | None]:
    """Return the newest protocol and metadata of a segment; None: the log has none.

    Reads commits from the newest on until both are found. Reads the checkpoint only if the commits do not contain both.
    Errors: CorruptLogError naming file and line.
    Source: PROTOCOL.md, Protocol Evolution; Change Metadata.
    """
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for end in range(len(segment.deltas), 0, -COMMITS_AT_ONCE):
        batch = read_commits(store, segment.deltas[max(0, end - COMMITS_AT_ONCE) : end])
        found = NonFileActions().advanced_by(batch)
        protocol, metadata = protocol or found.protocol, metadata or found.metadata
        if protocol is not None and metadata is not None:
            return protocol, metadata
    provider = segment.checkpoint_provider
    if provider.is_empty:
        return protocol, metadata
    contents = open_checkpoint(store, provider, segment.log_path)
    found = load_non_file_actions(store, contents, EMPTY_BATCH)
    return protocol or found.protocol, metadata or found.metadata
