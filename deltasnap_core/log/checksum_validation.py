"""Reads the `.crc` file of a version, and compares it with the state computed from the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import AddFile, Metadata, Protocol
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.properties.table_config import column_mapping_mode, set_transaction_retention_ms
from deltasnap_core.protocol.schema_text import PHYSICAL_NAME, fields_of, schema_fields
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.redaction import logger_of, redacted, safe_repr
from deltasnap_core.rules.paths import path_keys
from deltasnap_core.storage.log_store import FileStatus, LogStore


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumDifference:
    """A field in which a `.crc` file contradicts the log.

    field:               its name in PROTOCOL.md, in snake_case and without a trailing `Opt`.
    in_checksum, in_log: its two values; None: it is absent there.
    """

    field: str
    in_checksum: Any
    in_log: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.in_checksum!r} in the checksum, {self.in_log!r} in the log"


def compare_with_log(
    checksum: VersionChecksum, state: SnapshotState, all_files: Iterable[AddFile] | None = None, log_path: str = ""
) -> tuple[ChecksumDifference, ...]:
    """Return the fields in which a checksum differs from the state of its version; empty: no difference.

    A field that the checksum leaves out is not compared, nor is the time: see `compare_time_with_log`. Histograms of
    sizes are compared in the bins that both have, transactions only if none can expire, because a checksum lists those
    at the time it was written.
    state:     reconstructed from the log, never from a checksum.
    all_files: the live files; needed only if the checksum lists them. log_path: of the log, which resolves their paths.
    Source: PROTOCOL.md, Version Checksum File Schema; Delta's `ValidateChecksum`.
    """
    return _differences(
        [
            ("table_size_bytes", checksum.table_size_bytes, state.size_in_bytes),
            ("num_files", checksum.num_files, state.num_of_files),
            *_compared_actions(checksum, NonFileActions.of(state)),
            *_compared_counts(checksum, state),
            *_compared_files(checksum, all_files, state.metadata, log_path),
        ]
    )


def compare_actions_with_log(checksum: VersionChecksum, actions: NonFileActions) -> tuple[ChecksumDifference, ...]:
    """Return the fields of `compare_with_log` that need no file actions. actions: at the version, from the log."""
    return _differences(_compared_actions(checksum, actions))


def compare_time_with_log(checksum: VersionChecksum, in_commit_timestamp: int | None) -> tuple[ChecksumDifference, ...]:
    """Return the in-commit timestamp (ms) if it differs from that of the commit, which is known. None: it has none."""
    return _differences([("in_commit_timestamp", checksum.in_commit_timestamp, in_commit_timestamp)])


def _differences(compared: Iterable[tuple[str, Any, Any]]) -> tuple[ChecksumDifference, ...]:
    return tuple(
        ChecksumDifference(field=field, in_checksum=said, in_log=found)
        for field, said, found in compared
        if said is not None and said != found
    )


def _compared_counts(checksum: VersionChecksum, state: SnapshotState) -> Iterator[tuple[str, Any, Any]]:
    yield "num_deletion_vectors", checksum.num_deletion_vectors, state.num_deletion_vectors
    yield "num_deleted_records", checksum.num_deleted_records, state.num_deleted_records
    said, sizes = checksum.file_size_histogram, state.file_size_histogram
    if said is not None:
        yield "file_size_histogram", said.in_bins_of(sizes), sizes.in_bins_of(said)
    deleted = checksum.deleted_record_counts_histogram
    yield "deleted_record_counts_histogram", deleted, state.deleted_record_counts_histogram


def _compared_files(
    checksum: VersionChecksum, files: Iterable[AddFile] | None, metadata: Metadata | None, log_path: str
) -> Iterator[tuple[str, Any, Any]]:
    if checksum.all_files is not None and files is not None:
        listed, found = _comparable_files(checksum.all_files, log_path), _comparable_files(files, log_path)
        if not _are_same_files(listed, found, metadata):
            yield "all_files", listed, found


def _compared_actions(checksum: VersionChecksum, actions: NonFileActions) -> Iterator[tuple[str, Any, Any]]:
    metadata = actions.metadata
    yield "num_metadata", checksum.num_metadata, int(metadata is not None)
    yield "num_protocol", checksum.num_protocol, int(actions.protocol is not None)
    if not _is_same_metadata(checksum.metadata, metadata):
        yield "metadata", checksum.metadata, metadata
    yield "protocol", _unordered(checksum.protocol), _unordered(actions.protocol)
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


def _are_same_files(one: tuple[AddFile, ...], other: tuple[AddFile, ...], metadata: Metadata | None) -> bool:
    """Return whether comparable files are equal. Statistics are equal if their values in the table's schema are.

    A checkpoint that has them only as a struct writes a timestamp as UTC in milliseconds, nothing for an empty object,
    and only the columns that were indexed when it was written. So a column counts only if both state it.
    Delta's `validateFileListAgainstCRC`.
    """
    if one == other or [replace(each, stats=None) for each in one] != [replace(each, stats=None) for each in other]:
        return one == other
    if metadata is None:
        return False
    try:
        fields = schema_fields(metadata.schema_string)
    except ValueError:
        return False
    is_mapped = column_mapping_mode(metadata.configuration) != "none"
    pairs = ((said.stats, found.stats) for said, found in zip(one, other, strict=True) if said.stats != found.stats)
    return all(_agree(*(_typed_stats(each, fields, is_mapped) for each in pair)) for pair in pairs)


def _agree(one: object, other: object) -> bool:
    """Return whether two values are equal, objects in the keys that both have."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_agree(one[key], other[key]) for key in one.keys() & other.keys())
    return one == other


def _typed_stats(text: str | None, fields: Sequence[Mapping[str, Any]], is_mapped: bool) -> object:
    """Return statistics as comparable values, always with a number of records; the text itself if it is no object."""
    try:
        stats = None if text is None else decode_json(text)
    except ValueError:
        return text
    if not isinstance(stats, Mapping):
        return text
    typed = {key: _typed_values(value, fields, is_mapped) for key, value in stats.items()}
    return {"numRecords": None, **{key: value for key, value in typed.items() if value is not None}}


def _typed_values(value: object, fields: Sequence[Mapping[str, Any]], is_mapped: bool) -> object:
    """Return the values of the fields of a struct, without null ones; anything else unchanged."""
    if not isinstance(value, Mapping):
        return value
    typed: dict[str, object] = {}
    for field in fields:
        name = (field.get("metadata") or {}).get(PHYSICAL_NAME, field["name"]) if is_mapped else field["name"]
        kind, found = field["type"], value.get(name)
        if isinstance(kind, Mapping) and kind.get("type") == "struct":
            found = _typed_values(found, fields_of(kind), is_mapped)
        typed[name] = _milliseconds(found, kind) if kind in ("timestamp", "timestamp_ntz") else found
    return {name: found for name, found in typed.items() if found is not None}


def _milliseconds(value: object, kind: str) -> object:
    """Return a timestamp in ms since the epoch; a value in another form, or without a needed offset, unchanged."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return value
    if moment is None or (moment.tzinfo is None and kind == "timestamp"):
        return value
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _canonical_json(text: str | None) -> str | None:
    try:
        return None if text is None else json.dumps(decode_json(text), sort_keys=True)
    except ValueError:
        return text


_log = logger_of(__name__)

# The file may list every file of a small table. Reading a larger one costs more than reading the log itself.
_MAX_BYTES = 64 << 20


def read_checksum(store: LogStore, file: FileStatus | None) -> VersionChecksum | None:
    """Return the `.crc` file of a version, parsed; None: it is missing or not usable.

    It never stops a load. If the file is broken, too large or refused by the storage, it logs a warning and returns
    None.
    Source: PROTOCOL.md, Version Checksum File. Delta's `readChecksum`.
    """
    if file is None:
        return None
    try:
        if file.size > _MAX_BYTES:
            raise ValueError(f"expected {_MAX_BYTES} bytes at most, found {file.size}")
        return VersionChecksum.parse(store.read_bytes(file.path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("Version checksum %s is ignored, because it cannot be parsed: %s", redacted(file.path), error)
        return None
