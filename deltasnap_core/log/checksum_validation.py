"""Compares the `.crc` file of a version with the state computed from the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import AddFile, Metadata, Protocol
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.properties.table_config import set_transaction_retention_ms
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.redaction import safe_repr
from deltasnap_core.rules.paths import path_keys


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumDifference:
    """A field in which a `.crc` file contradicts the log.

    field: its name in PROTOCOL.md, in snake_case and without a trailing `Opt`.
    """

    field: str
    in_checksum: Any
    in_log: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.in_checksum!r} in the checksum, {self.in_log!r} in the log"


def compare_with_log(
    checksum: VersionChecksum,
    state: SnapshotState,
    *,
    in_commit_timestamp: int | None,
    all_files: Iterable[AddFile] | None,
    log_path: str = "",
) -> tuple[ChecksumDifference, ...]:
    """Return the fields in which a checksum differs from the state of its version; empty: no difference.

    A field that the checksum leaves out is not compared. Histograms are compared only if their boundaries are equal,
    transactions only if none expires: a checksum lists those of its own time.
    state:     reconstructed from the log, never from a checksum.
    all_files: the live files; needed only if the checksum lists them. log_path: of the log, which resolves their paths.
    Source: PROTOCOL.md, Version Checksum File Schema; Delta's `ValidateChecksum`.
    """
    return _differences(_compared(checksum, state, in_commit_timestamp, all_files, log_path))


def compare_actions_with_log(
    checksum: VersionChecksum, actions: NonFileActions, *, in_commit_timestamp: int | None
) -> tuple[ChecksumDifference, ...]:
    """Return the fields of `compare_with_log` that need no file actions. actions: at the version, from the log."""
    return _differences(_compared_actions(checksum, actions, in_commit_timestamp))


def _differences(compared: Iterable[tuple[str, Any, Any]]) -> tuple[ChecksumDifference, ...]:
    return tuple(
        ChecksumDifference(field=field, in_checksum=said, in_log=found)
        for field, said, found in compared
        if said is not None and said != found
    )


def _compared(
    checksum: VersionChecksum,
    state: SnapshotState,
    in_commit_timestamp: int | None,
    files: Iterable[AddFile] | None,
    log_path: str,
) -> Iterator[tuple[str, Any, Any]]:
    yield "table_size_bytes", checksum.table_size_bytes, state.size_in_bytes
    yield "num_files", checksum.num_files, state.num_of_files
    actions = NonFileActions(
        protocol=state.protocol,
        metadata=state.metadata,
        transactions={each.app_id: each for each in state.set_transactions},
        domains={each.domain: each for each in state.domain_metadata},
    )
    yield from _compared_actions(checksum, actions, in_commit_timestamp)
    yield "num_deletion_vectors", checksum.num_deletion_vectors, state.num_deletion_vectors
    yield "num_deleted_records", checksum.num_deleted_records, state.num_deleted_records
    sizes = checksum.file_size_histogram
    if sizes is not None and sizes.sorted_bin_boundaries == state.file_size_histogram.sorted_bin_boundaries:
        yield "file_size_histogram", sizes, state.file_size_histogram
    deleted = checksum.deleted_record_counts_histogram
    yield "deleted_record_counts_histogram", deleted, state.deleted_record_counts_histogram
    if checksum.all_files is not None and files is not None:
        yield "all_files", _comparable_files(checksum.all_files, log_path), _comparable_files(files, log_path)


def _compared_actions(
    checksum: VersionChecksum, actions: NonFileActions, in_commit_timestamp: int | None
) -> Iterator[tuple[str, Any, Any]]:
    metadata = actions.metadata
    yield "num_metadata", checksum.num_metadata, int(metadata is not None)
    yield "num_protocol", checksum.num_protocol, int(actions.protocol is not None)
    if not _is_same_metadata(checksum.metadata, metadata):
        yield "metadata", checksum.metadata, metadata
    yield "protocol", _unordered(checksum.protocol), _unordered(actions.protocol)
    if in_commit_timestamp is not None:
        yield "in_commit_timestamp", checksum.in_commit_timestamp, in_commit_timestamp
    if metadata is None or set_transaction_retention_ms(metadata.configuration) is None:
        yield "set_transactions", _by_name(checksum.set_transactions), _by_name((*actions.transactions.values(),))
    yield "domain_metadata", _by_name(checksum.domain_metadata), _by_name((*actions.domains.values(),))


def _is_same_metadata(one: Metadata | None, other: Metadata | None) -> bool:
    """Return whether both are equal, ignoring white space and the order of keys in the schema's JSON."""
    if one is None or other is None:
        return one == other
    return replace(one, schema_string=_canonical_json(one.schema_string)) == replace(
        other, schema_string=_canonical_json(other.schema_string)
    )


def _unordered(protocol: Protocol | None) -> Protocol | None:
    """Return a protocol with sorted features: its lists are sets. Some writers omit an empty one."""
    if protocol is None:
        return None
    readers, writers = protocol.reader_features or (), protocol.writer_features or ()
    return replace(
        protocol,
        reader_features=tuple(sorted(readers)) or None,
        writer_features=tuple(sorted(writers)) or None,
    )


def _by_name(actions: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if actions is None else tuple(sorted(actions, key=repr))


def _comparable_files(files: Iterable[AddFile], log_path: str) -> tuple[AddFile, ...]:
    """Return files sorted by key, without differences outside the state: dataChange, spelling of paths, statistics."""
    files = tuple(files)
    keys = path_keys(pa.array([file.path for file in files], pa.string()), log_path).to_pylist()
    plain = [
        replace(file, path=key, data_change=False, stats=_canonical_json(file.stats))
        for file, key in zip(files, keys, strict=True)
    ]
    return tuple(sorted(plain, key=lambda file: (file.path, file.key[1] or "")))


def _canonical_json(text: str | None) -> str | None:
    try:
        return None if text is None else json.dumps(decode_json(text), sort_keys=True)
    except ValueError:
        return text
