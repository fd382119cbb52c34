"""Reads and writes the rows of stored versions with Arrow. Counterpart with equal rows: `spark_rows.py`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptStoreError, one_line
from deltasnap_core.log.checkpoints.parquet_footer import checked, parsed_footer
from deltasnap_core.log.checkpoints.verified_parquet import damage_as, verified_parquet
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.full_actions import decoded, newest_lines, path_keys_of
from deltasnap_core.replay.driver.reconciliation import (
    measured_commits,
    newest_file_actions,
    with_path_keys,
    without_keys_of,
)
from deltasnap_core.replay.driver.state_deltas import deltas_of_range
from deltasnap_core.rules.expiry import expiring, unexpired
from deltasnap_core.rules.file_actions import ADDS, FULL_ACTION, KEY_FIELDS, REMOVES, columns_of, fitted
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.rules.paths import canonical_paths
from deltasnap_core.rules.totals.aggregates import MissingSizeError
from deltasnap_core.rules.totals.measures import MEASURED_ACTION, MEASURED_COLUMNS, measures_of
from deltasnap_core.scan.version import FILES_IN_PIECE
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import DataSet, StoreFile, VersionManifest
from deltasnap_core.store.rows.apply_step import ApplyResult, ApplyStep
from deltasnap_core.store.rows.row_groups import (
    KEY_COLUMN,
    ROWS_A_GROUP,
    byte_ranges,
    footer_digest,
    groups_with,
    read_footer,
)

T = TypeVar("T")

CHANGE_ROWS = pa.schema([("version", pa.int64()), ("key", pa.int64()), *FULL_ACTION])
"""The columns of the store's changes. A base has the last three."""

_KEY_COLUMNS = tuple(
    f"{kind}.{name}"
    for kind in FULL_ACTION.names
    for name in ("path", *(f"deletionVector.{field}" for field in KEY_FIELDS))
)
_TIME_COLUMN = "remove.deletionTimestamp"
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRows:
    """Reads and writes the rows of one table's versions. folder: of the generation. Errors: CorruptStoreError."""

    storage: WritableFiles
    folder: str
    log_path: str

    def all_files(self, manifest: VersionManifest, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the live files of a version (ADDS, or some of its columns), in any order."""
        names = selected_columns(ADDS.names, columns)
        return self._live(self._newest(manifest, [f"add.{name}" for name in names]), names)

    def tombstones(
        self, manifest: VersionManifest, retention: Retention, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the tombstones of a version that a retention keeps (REMOVES, or some of its columns), in any order."""
        names = selected_columns(REMOVES.names, columns)
        rows = self._newest(manifest, [*(f"remove.{name}" for name in names), _TIME_COLUMN])
        gone = unexpired(rows.filter(rows["deleted_at"].is_valid()), retention)
        return self._columns(gone["remove"], names)

    def files_and_tombstones(
        self, manifest: VersionManifest, files: Sequence[str], tombstones: Sequence[str]
    ) -> tuple[pa.Table, pa.Table]:
        """Return columns of the live files and of the tombstones of a version, in any order, from one pass."""
        adds, removes = selected_columns(ADDS.names, files), selected_columns(REMOVES.names, tombstones)
        columns = [*(f"add.{name}" for name in adds), *(f"remove.{name}" for name in removes), _TIME_COLUMN]
        rows = unexpired(self._newest(manifest, columns), manifest.retention)
        return self._live(rows, adds), self._columns(rows.filter(rows["deleted_at"].is_valid())["remove"], removes)

    def files_in_pieces(self, manifest: VersionManifest, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the live files of a version as `all_files`, in pieces, so that the base is never held as a whole."""
        names = selected_columns(ADDS.names, columns)
        schema = _narrowed({*(f"add.{name}" for name in names), *_KEY_COLUMNS})
        newest = newest_file_actions(self._changes(manifest, schema))
        yield self._live(newest, names)
        for file in manifest.base.files:
            for rows in self._batches(file, _leaves(schema)):
                base = with_path_keys(_base_rows(rows, schema), self.log_path)
                yield self._live(without_keys_of(base, newest), names)

    def changed_files(
        self, earlier: VersionManifest, manifest: VersionManifest, columns: Sequence[str]
    ) -> tuple[pa.Table, pa.Table] | None:
        """Return the live files (some columns of ADDS) of two versions with one base that the changes between touch.

        Also other rows of their paths, which are the same in both. None: they are too many to hold.
        """
        keys = self._keys_changed(earlier, manifest)
        if len(keys) > FILES_IN_PIECE:
            return None
        names = selected_columns(ADDS.names, columns)
        schema = _narrowed({*(f"add.{name}" for name in names), *_KEY_COLUMNS})
        base, changes = self._base(manifest, schema, keys), self._changes(manifest, schema, keys)
        before = changes.filter(pc.less_equal(changes["commit_version"], earlier.version))
        return self._live(_reconciled(base, before), names), self._live(_reconciled(base, changes), names)

    def write_base(self, actions: pa.Table, path: str, version: int) -> DataSet:
        """Write the whole state of a version (FULL_ACTION) into a new folder. Return the data set."""
        keys = pa.array(map(xxhash64, path_keys_of(actions, self.log_path).to_pylist()), pa.int64())
        rows = actions.add_column(0, KEY_COLUMN, keys)
        return DataSet(first=version, last=version, files=self._write(rows, path))

    def apply(self, step: ApplyStep) -> ApplyResult:
        """Write the changes of a step, and return them with the StateDelta of each version.

        Errors: CorruptLogError; UnusualError.
        """
        changed = newest_lines(step.batch, self.log_path, within=("commit_version",))
        actions = decoded(changed["line"].to_pylist())
        changes = _change_rows(changed, actions)
        keys = self._keys_touched_or_expiring(step, changes)
        files = self._newest(step.previous, MEASURED_COLUMNS, keys).select(["path_key", *MEASURED_ACTION.names[1:]])
        commits = measured_commits(step.batch, self.log_path)
        try:
            deltas = deltas_of_range(files, commits, step.non_file, step.retentions)
        except MissingSizeError as error:
            read = [join_url(self.folder, file.path) for file in step.previous.data_files]
            raise CorruptStoreError(path=[*read, self.folder][0], reason=str(error)) from error
        return self._write_changes(changes, step), deltas

    def _write_changes(self, changes: pa.Table, step: ApplyStep) -> DataSet:
        """Write changes (CHANGE_ROWS) together with the merged earlier ones, up to the version before the new ones."""
        files = [file for data_set in step.merged for file in data_set.files]
        earlier = [self._read(file, CHANGE_ROWS.names, _as_changes) for file in files]
        kept = [rows.filter(pc.less_equal(rows["version"], step.previous.version)) for rows in earlier]
        written = self._write(pa.concat_tables([*kept, changes]), step.folder)
        return DataSet(first=step.first, last=step.last, files=written)

    def _write(self, rows: pa.Table, path: str) -> tuple[StoreFile, ...]:
        """Write rows into a new folder, sorted by key. Return the files."""
        if not rows.num_rows:
            return ()
        stream = BytesIO()
        sorted_rows = rows.sort_by("key")
        pq.write_table(sorted_rows, stream, compression="zstd", row_group_size=ROWS_A_GROUP, write_page_checksum=True)
        name, content = f"{path}/part-0.parquet", stream.getvalue()
        self.storage.write(join_url(self.folder, name), content)
        digest = footer_digest(read_footer(stream, len(content)))
        return (StoreFile(path=name, size=len(content), rows=rows.num_rows, footer=digest),)

    def _keys_touched_or_expiring(self, step: ApplyStep, changes: pa.Table) -> pa.Array:
        """Return the keys of the logical files that changes (CHANGE_ROWS) touch, or whose tombstones expire.

        It reads only the keys and deletion times of the stored rows, and nothing if no tombstone can expire.
        """
        before, after = step.retentions[step.previous.version], step.retentions[step.last]
        found = [changes["key"]]
        if not before.is_within(after):
            sets = (step.previous.base, *step.previous.changes)
            keys = partial(_keys_expiring, before=before, after=after)
            found += [self._read(file, ["key", _TIME_COLUMN], keys) for data_set in sets for file in data_set.files]
        return pa.chunked_array([chunk for each in found for chunk in each.chunks], pa.int64()).unique()

    def _newest(self, manifest: VersionManifest, columns: Iterable[str], keys: pa.Array | None = None) -> pa.Table:
        """Return the newest action of each logical file: MEASURED_LINES with its key, and `add` and `remove` as read.

        Rows of a base stay until a change replaces their file, even if a checkpoint had the file twice.
        columns: Parquet columns to read; measures that need other columns are null.
        keys:    of the logical files to read, see CHANGE_ROWS; None: all of them.
        """
        schema = _narrowed({*columns, *_KEY_COLUMNS})
        return _reconciled(self._base(manifest, schema, keys), self._changes(manifest, schema, keys))

    def _base(self, manifest: VersionManifest, schema: pa.Schema, keys: pa.Array | None) -> pa.Table:
        """Return the rows of the base, as `_newest`."""
        leaves = _leaves(schema)
        rows = [self._read(file, leaves, lambda rows: _base_rows(rows, schema), keys) for file in manifest.base.files]
        return with_path_keys(pa.concat_tables([_base_rows(schema.empty_table(), schema), *rows]), self.log_path)

    def _changes(self, manifest: VersionManifest, schema: pa.Schema, keys: pa.Array | None = None) -> pa.Table:
        """Return the rows of the changes up to the version, as `_newest`, but all of a file."""
        files, leaves = (
            [file for data_set in manifest.changes for file in data_set.files],
            ["version", *_leaves(schema)],
        )
        found = [self._read(file, leaves, lambda rows: _measured_rows(rows, schema), keys) for file in files]
        rows = pa.concat_tables([_base_rows(schema.empty_table(), schema), *found])
        rows = rows.filter(pc.less_equal(rows["commit_version"], manifest.version))
        # One row per version and file: any order within a version works, but it must be unique.
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int32))
        return with_path_keys(rows.set_column(1, "line_number", numbers), self.log_path)

    def _keys_changed(self, earlier: VersionManifest, manifest: VersionManifest) -> pa.Array:
        """Return the keys of the logical files that the versions after an earlier one touch."""
        is_between = (pc.field("version") > earlier.version) & (pc.field("version") <= manifest.version)
        sets = [data_set for data_set in manifest.changes if data_set.last > earlier.version]
        files = [file for data_set in sets for file in data_set.files]
        found = [
            self._read(file, ["version", KEY_COLUMN], lambda rows: rows.filter(is_between)[KEY_COLUMN])
            for file in files
        ]
        return pa.chunked_array([chunk for keys in found for chunk in keys.chunks], pa.int64()).unique()

    def _live(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        return self._columns(rows.filter(rows["deleted_at"].is_null())["add"], names)

    def _columns(self, structs: pa.ChunkedArray, names: Sequence[str]) -> pa.Table:
        """Return some fields of actions as columns, with canonical paths."""
        found = columns_of(structs.combine_chunks(), names)
        if "path" not in names:
            return found
        place = found.column_names.index("path")
        paths = canonical_paths(found["path"].combine_chunks(), self.log_path)
        return found.set_column(place, found.schema.field(place), paths)

    def _read(
        self, file: StoreFile, columns: Sequence[str], made: Callable[[pa.Table], T], keys: pa.Array | None = None
    ) -> T:
        """Return the result of `made`, called with some columns of a file.

        keys: of the rows to read, in `key`; None: all. Only row groups that may have them are read.
        """
        path = join_url(self.folder, file.path)

        with damage_as(partial(_corrupt, path), KeyError):
            with self.storage.open(path) as stream:
                known = checked(parsed_footer(read_footer(stream, file.size, file.footer)), file.size)
                if keys is None:
                    return made(verified_parquet(stream, known).read(columns=list(columns)))
                groups, columns = groups_with(known, keys), [KEY_COLUMN, *columns]
                if len(groups) in (0, known.num_row_groups):
                    return made(_rows_with(keys, stream, known, _with_any(keys, stream, known, groups), columns))
            with self.storage.open_parts(path, file.size, byte_ranges(known, groups, [KEY_COLUMN])) as stream:
                groups = _with_any(keys, stream, known, groups)
            with self.storage.open_parts(path, file.size, byte_ranges(known, groups, columns)) as stream:
                return made(_rows_with(keys, stream, known, groups, columns))

    def _batches(self, file: StoreFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        path = join_url(self.folder, file.path)
        with damage_as(partial(_corrupt, path), KeyError), self.storage.open(path) as stream:
            known = checked(parsed_footer(read_footer(stream, file.size, file.footer)), file.size)
            for batch in verified_parquet(stream, known).iter_batches(_ROWS_AT_ONCE, columns=list(columns)):
                yield pa.Table.from_batches([batch])


def _corrupt(path: str, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(path=path, reason=f"file actions could not be read: {one_line(error)}")


def _change_rows(changed: pa.Table, actions: pa.Table) -> pa.Table:
    """Return the changes of lines (`newest_lines`) and their actions (FULL_ACTION)."""
    keys = pa.array(map(xxhash64, changed["path_key"].to_pylist()), pa.int64())
    return pa.table([changed["commit_version"], keys, *actions.columns], schema=CHANGE_ROWS)


def _with_any(keys: pa.Array, stream: BinaryIO, footer: pq.FileMetaData, groups: Sequence[int]) -> list[int]:
    """Return the row groups that have some of the keys. Each added file has a key within the range of some group."""
    parquet = verified_parquet(stream, footer)
    found = ((group, parquet.read_row_group(group, columns=[KEY_COLUMN])[KEY_COLUMN]) for group in groups)
    return [group for group, known in found if pc.any(pc.is_in(known, keys)).as_py()]


def _reconciled(base: pa.Table, changes: pa.Table) -> pa.Table:
    newest = newest_file_actions(changes)
    return pa.concat_tables([without_keys_of(base, newest), newest])


def _rows_with(
    keys: pa.Array, stream: BinaryIO, footer: pq.FileMetaData, groups: Sequence[int], columns: Sequence[str]
) -> pa.Table:
    parquet = verified_parquet(stream, footer)
    if not groups:
        return parquet.read_row_groups([], columns=list(columns))
    batches = parquet.iter_batches(row_groups=list(groups), columns=list(columns))
    return pa.Table.from_batches([batch.filter(pc.is_in(batch["key"], keys)) for batch in batches])


def _keys_expiring(rows: pa.Table, *, before: Retention, after: Retention) -> pa.ChunkedArray:
    """Return the keys of the tombstones that expire between two retentions. rows: with key and deletion time."""
    gone = rows.filter(rows["remove"].is_valid())
    times = pc.fill_null(pc.struct_field(gone["remove"], "deletionTimestamp"), 0)
    expires = expiring(times, before, after)
    return gone["key"].slice(0, 0) if expires is None else gone.filter(expires)["key"]


def _as_changes(rows: pa.Table) -> pa.Table:
    return rows.select(CHANGE_ROWS.names).cast(CHANGE_ROWS)


def _base_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of a base as `_measured_rows`. They come before all changes."""
    return _measured_rows(rows.append_column("version", pa.array(np.full(rows.num_rows, -1))), schema)


def _measured_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return stored changes with version and measures: MEASURED_LINES, and `add` and `remove` in a narrower schema."""
    actions = pa.table([fitted(rows[field.name].combine_chunks(), field.type) for field in schema], schema=schema)
    measures = measures_of(actions)
    place = {"commit_version": rows["version"], "line_number": np.zeros(rows.num_rows, np.int32)}
    columns = {name: measures[name] for name in measures.column_names}
    return pa.table(place | columns | {name: actions[name] for name in actions.column_names})


def _narrowed(leaves: Collection[str]) -> pa.Schema:
    """Return FULL_ACTION with only the given Parquet leaves, such as `add.size` or `add.deletionVector.offset`."""
    return pa.schema([(field.name, _narrowed_struct(field.type, field.name, leaves)) for field in FULL_ACTION])


def _narrowed_struct(kind: pa.StructType, above: str, leaves: Collection[str]) -> pa.StructType:
    fields = []
    for field in kind:
        path = f"{above}.{field.name}"
        if path in leaves:
            fields.append(field)
        elif any(leaf.startswith(f"{path}.") for leaf in leaves):
            fields.append(pa.field(field.name, _narrowed_struct(field.type, path, leaves)))
    return pa.struct(fields)


def _leaves(schema: pa.Schema) -> list[str]:
    return [f"{field.name}.{inner.name}" for field in schema for inner in field.type]


def selected_columns(names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the given column names, or all for None. Errors: ValueError for an unknown name."""
    if columns is None:
        return list(names)
    if unknown := [name for name in columns if name not in names]:
        raise ValueError(f"expected columns among {', '.join(names)}, found {', '.join(unknown)}")
    return list(columns)
