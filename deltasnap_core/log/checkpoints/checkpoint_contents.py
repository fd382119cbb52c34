"""The files and statistics columns of a checkpoint, as read from its Parquet footers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import SEEK_END
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptLogError, one_line
from deltasnap_core.log.checkpoints.checkpoint_rules import (
    NON_FILE_COLUMNS,
    check_columns,
    check_footer,
    check_rows,
    holds,
    leaves_of_groups,
)
from deltasnap_core.log.checkpoints.parquet_footer import (
    checked,
    footer_bytes,
    least_value,
    null_count,
    null_counts,
    parsed_footer,
)
from deltasnap_core.log.checkpoints.verified_parquet import damage_as, verified_parquet
from deltasnap_core.log.commits.action_lines import FILE_ACTIONS, LINES_SCHEMA, decode_line, lines_with, read_lines
from deltasnap_core.log.commits.commit_batch import versions_with_negative_numbers
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.protocol.log_files.file_names import SIDECAR_FOLDER, CheckpointKind
from deltasnap_core.rules.file_actions import is_text
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.trusted_paths import resolve_path
from deltasnap_core.storage.urls import join_url

_FOOTER_READERS = 8

_V2_COLUMNS = {"sidecar": "path", "checkpointMetadata": "version"}
"""The columns of V2 checkpoints alone, each with a field that is set whenever the action is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """A Parquet file of a checkpoint with its parsed footer.

    has_stats:    whether every add has its statistics as JSON; if not, `stats_parsed` has them as a struct.
    stats_parsed: the Arrow type of `add.stats_parsed`; None: no such column.
    """

    file: FileStatus
    metadata: pq.FileMetaData
    schema: pa.Schema
    has_stats: bool
    stats_parsed: pa.DataType | None

    @property
    def has_file_actions(self) -> bool:
        """Whether the schema has a column for file actions."""
        return "add" in self.schema.names or "remove" in self.schema.names

    @property
    def lacks_partition_values(self) -> bool:
        """Whether the file has adds, but no column of their partition values (or only a struct of them)."""
        if "add" not in self.schema.names or self.schema.field("add").type.get_field_index("partitionValues") >= 0:
            return False
        return bool(null_count(self.metadata, "add.path") != self.metadata.num_rows)

    @property
    def has_num_records(self) -> bool:
        """Whether `stats_parsed` has the number of records of every add, so that the JSON is not needed for it."""
        missing = null_count(self.metadata, "add.stats_parsed.numRecords")
        return missing is not None and missing == null_count(self.metadata, "add.path")

    @property
    def has_hidden_nulls(self) -> bool:
        """Whether `remove.partitionValues` has nulls that its schema excludes. Spark then misplaces other values.

        delta-rs 1.0 writes such files.
        """
        schema, above = self.metadata.schema, "remove.partitionValues."
        columns = [schema.column(index) for index in range(self.metadata.num_columns)]
        leaves = [column for column in columns if column.path.startswith(above)]
        are_required = len({column.max_definition_level for column in leaves}) == 1
        return are_required and len({null_count(self.metadata, column.path) for column in leaves}) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContents:
    """An opened checkpoint. It is reconciled already, so its rows need no shuffle.

    top_level:  the Parquet files of the checkpoint itself; empty for a JSON checkpoint.
    sidecars:   the files that a V2 checkpoint references; they contain only file actions.
    lines:      the actions of a JSON checkpoint (LINES_SCHEMA); empty for a Parquet checkpoint.
    lines_path: URL of the JSON checkpoint; None: the checkpoint is Parquet.
    Source: PROTOCOL.md, Checkpoints; V2 Checkpoint Table Feature.
    """

    version: int
    top_level: tuple[CheckpointFile, ...]
    sidecars: tuple[CheckpointFile, ...]
    lines: pa.Table
    lines_path: str | None

    @property
    def files_with_file_actions(self) -> tuple[CheckpointFile, ...]:
        """The Parquet files that contain add or remove actions."""
        return tuple(file for file in (*self.top_level, *self.sidecars) if file.has_file_actions)

    @property
    def paths(self) -> tuple[str, ...]:
        """URLs of all files, including sidecars."""
        files = tuple(part.file.path for part in (*self.top_level, *self.sidecars))
        return files if self.lines_path is None else (self.lines_path, *files)

    @property
    def names(self) -> frozenset[str]:
        """Names of the top-level files."""
        if self.lines_path is not None:
            return frozenset({self.lines_path.rpartition("/")[2]})
        return frozenset(part.file.name for part in self.top_level)

    @property
    def num_rows(self) -> int:
        """The number of actions, including those of sidecars."""
        rows = [file.metadata.num_rows for file in (*self.top_level, *self.sidecars)]
        return int(self.lines.num_rows + sum(rows))


def has_negative_numbers(contents: CheckpointContents) -> bool:
    """Return whether a file has a negative number, according to the footers, or the lines of a checkpoint in JSON.

    The JSON statistics in Parquet are not read: `read_every_page` does it.
    """
    parts = (*contents.top_level, *contents.sidecars)
    leaves = ("add.size", "add.deletionVector.cardinality", "add.stats_parsed.numRecords")
    stated = [least_value(part.metadata, leaf) for part in parts for leaf in leaves]
    return any(value is not None and value < 0 for value in stated) or bool(
        versions_with_negative_numbers(contents.lines)
    )


def open_checkpoint(store: LogStore, provider: CheckpointProvider, log_path: str) -> CheckpointContents:
    """Return a checkpoint with its footers read and its sidecars resolved.

    Errors: CorruptLogError naming the file that is missing, unreadable, truncated or has another schema, or the file
    that names a sidecar outside the table or twice, has file actions beside its sidecars, has another version, or
    states another size of a sidecar, or another number of actions in its sidecars.
    Source: PROTOCOL.md, Checkpoints; V2 Spec; Sidecar Files; Checkpoint Metadata.
    """
    file = provider.files[0]
    if provider.format == "json":
        lines = read_lines(file.path, provider.version, _read(store, file.path))
        top_level: tuple[CheckpointFile, ...] = ()
        metadata, named = _metadata_of_lines(file.path, lines), _sidecars_of_lines(file.path, lines)
        has_files = lines_with(lines, *FILE_ACTIONS).num_rows > 0
    else:
        lines = LINES_SCHEMA.empty_table()
        top_level = _open_all(store, provider.files)
        found = [action for part in top_level for action in read_columns(store, part, _V2_COLUMNS)]
        metadata = [value for column, value in found if column == "checkpointMetadata"]
        named = [value for column, value in found if column == "sidecar"]
        has_files = bool(named) and any(_has(store, part, column) for part in top_level for column in FILE_ACTIONS)
    versions = [each.get("version") if isinstance(each, dict) else each for each in metadata]
    if versions != [provider.version] and (versions or named or provider.kind is CheckpointKind.UUID):
        reason = f"expected one checkpointMetadata action of version {provider.version}, found {versions!r:.80}"
        raise CorruptLogError(path=file.path, reason=reason)
    if named and has_files:
        raise CorruptLogError(path=file.path, reason="expected all file actions in sidecars, found some beside them")
    statuses = [_sidecar_status(log_path, file.path, str(sidecar["path"])) for sidecar in named]
    if repeated := [path for path, count in Counter(status.path for status in statuses).items() if count > 1]:
        raise CorruptLogError(path=file.path, reason=f"expected each sidecar once, found {repeated[0]} again")
    sidecars = _open_all(store, statuses)
    _check_sizes(named, sidecars)
    _check_number_of_actions(file.path, metadata, sidecars)
    return CheckpointContents(
        version=provider.version,
        top_level=top_level,
        sidecars=sidecars,
        lines=lines,
        lines_path=file.path if provider.format == "json" else None,
    )


def read_columns(
    store: LogStore, part: CheckpointFile, witnesses: Mapping[str, str]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the column and the value of each action in some struct columns.

    witnesses: by column, a field that is set whenever the struct is. By its statistics, row groups without values are
    skipped.
    Errors: CorruptLogError naming the file.
    """
    wanted: dict[int, list[str]] = {}
    for column, witness in witnesses.items():
        for group in _groups_with(part.metadata, f"{column}.{witness}"):
            wanted.setdefault(group, []).append(column)
    if not wanted:
        return []
    found: list[tuple[str, dict[str, Any]]] = []
    with _opened(store, part, f"column {' or '.join(witnesses)} could not be read") as parquet:
        for group, columns in wanted.items():
            rows = parquet.read_row_group(group, columns=columns)
            found += [(column, value) for column in columns for value in _values(rows, column)]
    return [(column, value) for column, value in found if value.get(witnesses[column]) is not None]


def _has(store: LogStore, part: CheckpointFile, column: str) -> bool:
    """Return whether a part has file actions in a column. Reads only their paths, and only if the footer is unclear."""
    leaf = f"{column}.path"
    groups = _groups_with(part.metadata, leaf)
    if not groups:
        return False
    with _opened(store, part, f"column {column} could not be read") as parquet:
        return any(holds(parquet.read_row_group(group, columns=[leaf]), leaf).any() for group in groups)


def read_non_file_actions(store: LogStore, part: CheckpointFile) -> list[tuple[str, dict[str, Any]]]:
    """Return the column and the value of each non-file action. Reads only the row groups that have some.

    Errors: CorruptLogError if the file cannot be read, or if a row has a non-file action and another action.
    """
    wanted = [(group, leaves) for group, leaves in enumerate(leaves_of_groups(part.metadata)) if leaves]
    if not wanted:
        return []
    found: list[tuple[str, dict[str, Any]]] = []
    with _opened(store, part, "its actions could not be read") as parquet:
        for group, leaves in wanted:
            columns = [column for column in NON_FILE_COLUMNS if column in leaves]
            rows = parquet.read_row_group(group, columns=[*columns, *leaves.values()])
            check_rows(part.file.path, rows, leaves)
            found += [(column, value) for column in columns for value in _values(rows, column)]
    return [(column, value) for column, value in found if value.get(NON_FILE_COLUMNS[column]) is not None]


def _values(rows: pa.Table, column: str) -> list[dict[str, Any]]:
    found = rows[column].combine_chunks().drop_null()
    values: list[dict[str, Any]] = found.cast(_with_text(found.type)).to_pylist(maps_as_pydicts="lossy")
    return values


def _with_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text for bytes. Writers may omit that bytes are text, and no non-file action has others."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_text(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_text(kind.key_type), _with_text(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_with_text(kind.value_type))
    return pa.string() if is_text(kind) else kind


@contextmanager
def _opened(store: LogStore, part: CheckpointFile, problem: str) -> Iterator[pq.ParquetFile]:
    """Open a part. problem: what damage found within the block means. Errors: CorruptLogError; StorageError."""
    path = part.file.path
    with (
        damage_as(lambda error: CorruptLogError(path=path, reason=f"{problem}: {one_line(error)}")),
        store.open(path) as stream,
    ):
        yield verified_parquet(stream, part.metadata)


def _groups_with(metadata: pq.FileMetaData, leaf: str) -> list[int]:
    counts = null_counts(metadata, leaf) or ()
    return [group for group, (values, nulls) in enumerate(counts) if nulls != values]


def _open_all(store: LogStore, files: Iterable[FileStatus]) -> tuple[CheckpointFile, ...]:
    return tuple(map_concurrently(partial(_open, store), files, at_once=_FOOTER_READERS))


def _no_parquet(path: str, error: Exception) -> CorruptLogError:
    is_missing = isinstance(error, FileNotFoundError)
    reason = "expected a file of the checkpoint, found none" if is_missing else f"expected Parquet: {one_line(error)}"
    return CorruptLogError(path=path, reason=reason)


def _open(store: LogStore, file: FileStatus) -> CheckpointFile:
    with damage_as(partial(_no_parquet, file.path)), store.open(file.path) as stream:
        size = stream.seek(0, SEEK_END)
        metadata = checked(parsed_footer(footer_bytes(stream, size)), size)
        schema = metadata.schema.to_arrow_schema()
    check_columns(file.path, schema)
    check_footer(file.path, metadata, schema)
    add = schema.field("add").type if "add" in schema.names else None
    parsed = add.field("stats_parsed").type if add is not None and add.get_field_index("stats_parsed") >= 0 else None
    has_stats = add is not None and add.get_field_index("stats") >= 0
    if has_stats and parsed is not None:
        without = null_count(metadata, "add.stats")
        has_stats = without is not None and without == null_count(metadata, "add.path")
    return CheckpointFile(
        file=replace(file, size=size), metadata=metadata, schema=schema, has_stats=has_stats, stats_parsed=parsed
    )


def _check_sizes(named: Iterable[dict[str, Any]], sidecars: Iterable[CheckpointFile]) -> None:
    """Raise CorruptLogError if a sidecar has another size than its action states. Null: the writer omitted it."""
    for action, sidecar in zip(named, sidecars, strict=True):
        stated, found = action.get("sizeInBytes"), sidecar.file.size
        if stated is not None and stated != found:
            reason = f"expected a sidecar of {stated} bytes, as the checkpoint states, found {found}"
            raise CorruptLogError(path=sidecar.file.path, reason=reason)


def _check_number_of_actions(path: str, metadata: list[Any], sidecars: Iterable[CheckpointFile]) -> None:
    """Raise CorruptLogError if the sidecars have other numbers of actions than a tag of Delta's writer states.

    The file may have been cut at the end of a line, or a sidecar may have been replaced.
    """
    tags = [each["tags"] for each in metadata if isinstance(each, dict) and isinstance(each.get("tags"), dict)]
    stated = next((each.get("sidecarNumActions") for each in tags), None)
    found = sum(sidecar.metadata.num_rows for sidecar in sidecars)
    if isinstance(stated, str) and stated.isdecimal() and int(stated) != found:
        reason = f"expected {stated} actions in its sidecars, as its checkpointMetadata states, found {found}"
        raise CorruptLogError(path=path, reason=reason)


def _metadata_of_lines(path: str, lines: pa.Table) -> list[Any]:
    rows = lines_with(lines, "checkpointMetadata").to_pylist()
    return [decode_line(path, row["line_number"], row["line"])["checkpointMetadata"] for row in rows]


def _sidecars_of_lines(path: str, lines: pa.Table) -> list[dict[str, Any]]:
    found = []
    for row in lines_with(lines, "sidecar").to_pylist():
        number = row["line_number"]
        sidecar = decode_line(path, number, row["line"])["sidecar"]
        if not isinstance(sidecar.get("path"), str):
            raise CorruptLogError(path=path, line=number, reason=f"expected a sidecar, found {json.dumps(sidecar)}")
        found.append(sidecar)
    return found


def _sidecar_status(log_path: str, named_in: str, name: str) -> FileStatus:
    """Return the file of a sidecar from its path in the checkpoint: URI-encoded, below `_sidecars` unless absolute."""
    folder = join_url(log_path, SIDECAR_FOLDER)
    try:
        path = resolve_path(table_path(log_path), name, base=folder)
    except ValueError as error:
        raise CorruptLogError(path=named_in, reason=str(error)) from error
    return FileStatus(path=path, size=0, modification_time=0)


def _read(store: LogStore, path: str) -> bytes:
    try:
        return store.read_bytes(path)
    except FileNotFoundError as error:
        raise CorruptLogError(path=path, reason="expected a checkpoint, found no file") from error
