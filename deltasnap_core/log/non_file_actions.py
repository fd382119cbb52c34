"""The actions that are not of files, newest first: protocol, metadata, transactions and domains, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoint_contents import NON_FILE_COLUMNS, CheckpointContents, read_column
from deltasnap_core.log.commit_batch import CommitBatch, iterate_lines, parse_line
from deltasnap_core.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.file_names import commit_version
from deltasnap_core.storage.log_store import LogStore

_PATTERN = '"(' + "|".join(NON_FILE_COLUMNS) + ')"'
_READERS: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "protocol": Protocol.from_json,
    "metaData": Metadata.from_json,
    "txn": SetTransaction.from_json,
    "domainMetadata": DomainMetadata.from_json,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFileActions:
    """The newest of each action that is not of a file, at one version.

    protocol, metadata: None: the log has none (an error for a snapshot, but not here).
    transactions: by application id; the latest wins, even where its version is lower.
    domains:      by name; those whose newest action removes them are left out.
    Source: PROTOCOL.md, Action Reconciliation.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)

    def advanced(self, actions: Iterable[Any]) -> NonFileActions:
        """Give the state after further actions, in the order of the log."""
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


def load_non_file_actions(store: LogStore, contents: CheckpointContents | None, batch: CommitBatch) -> NonFileActions:
    """Give the newest actions that are not of files, from a checkpoint and the commits after it.

    Reads of the checkpoint only the row groups that hold such actions.
    Errors: CorruptLogError naming file and line.
    """
    found = NonFileActions()
    if contents is not None:
        found = found.advanced(_actions_of_checkpoint(store, contents))
    by_version = non_file_actions_by_version(store, batch)
    return found.advanced(action for version in sorted(by_version) for action in by_version[version])


def non_file_actions_by_version(store: LogStore, batch: CommitBatch) -> dict[int, list[Any]]:
    """Give the actions of each commit that are not of files, in the order of the commit; versions without any left out.

    Errors: CorruptLogError naming file and line.
    """
    path_of = {commit_version(file.path): file.path for file in batch.files}
    found: dict[int, list[Any]] = {}
    for version, number, line in _candidate_lines(store, batch):
        actions = list(_parse(path_of[version], number, line))
        if actions:
            found.setdefault(version, []).extend(actions)
    return found


def _candidate_lines(store: LogStore, batch: CommitBatch) -> Iterator[tuple[int, int, str]]:
    lines = batch.lines_matching(_PATTERN)
    yield from zip(*(lines[name].to_pylist() for name in lines.schema.names), strict=True)
    for commit in batch.large:
        version = commit_version(commit.path)
        for number, line in iterate_lines(store, commit):
            if any(f'"{name}"' in line for name in NON_FILE_COLUMNS):
                yield version, number, line


def _actions_of_checkpoint(store: LogStore, contents: CheckpointContents) -> Iterator[Any]:
    for part in contents.top_level:
        for column, witness in NON_FILE_COLUMNS.items():
            for value in read_column(store, part, column, witness):
                yield _typed(contents.top_level[0].file.path, None, column, value)
    if contents.lines_path is not None:
        for number, line in zip(
            contents.lines["line_number"].to_pylist(), contents.lines["line"].to_pylist(), strict=True
        ):
            yield from _parse(contents.lines_path, number, line)


def _parse(path: str, number: int, line: str) -> Iterator[Any]:
    action = parse_line(path, number, line)
    for name in NON_FILE_COLUMNS:
        if action.get(name) is not None:
            yield _typed(path, number, name, action[name])


def _typed(path: str, line: int | None, name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptLogError(path=path, line=line, reason=f"{name}: {error}") from error
