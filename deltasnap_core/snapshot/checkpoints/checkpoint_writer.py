"""Writes the checkpoint of a version: under a temporary name, read back, compared, then put in place.

A process that is killed leaves the table as readable as before. It may leave files that no reader opens: a folder
`.tmp-checkpoint-...` in the log, and sidecars that no checkpoint names.
Source: PROTOCOL.md, Checkpoints; V2 Spec; Last Checkpoint File. Delta's `Checkpoints`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from uuid import NAMESPACE_URL, uuid4, uuid5

from pyspark.sql import DataFrame, Observation

from deltasnap_core.errors import CheckpointMismatchError, CorruptLogError, StorageError, UnsupportedSettingError
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH
from deltasnap_core.log.listing.changing_log import check_unchanged
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions
from deltasnap_core.protocol.log_files.file_names import (
    SIDECAR_FOLDER,
    CheckpointKind,
    LogFileKind,
    ParsedLogPath,
    checkpoint_file,
    commit_version,
    uuid_checkpoint_file,
)
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.protocol.properties.table_config import checkpoint_policy
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.state_reconstruction import reconciled_files
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.scan.version import Version
from deltasnap_core.snapshot.checkpoints.checkpoint_hint import drop_side_file, hint_of, write_hint
from deltasnap_core.snapshot.checkpoints.checkpoint_rows import NO_FILES, CheckpointColumns, FileDigest
from deltasnap_core.snapshot.checkpoints.written_checkpoint import WrittenCheckpoint
from deltasnap_core.snapshot.computed_state import compute_state
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import TEMPORARY_PREFIX, WritableFiles

ACTIONS_A_SIDECAR = 50_000

_log = logger_of(__name__)
# Every reader of Delta tables can read it, and Delta's Spark writer uses it.
_OPTIONS = {"compression": "snappy"}
_CHANGES_TIMES = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("LEGACY", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInWrite": ("LEGACY", "EXCEPTION"),
    "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MILLIS",),
}
"""Settings and values with which Spark's writer changes or refuses some dates and times. No option overrides them."""
_RECORDS = ("num_known_records", "num_files_without_records")
_WORK = "a checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A checkpoint that is not in place yet.

    top_level: the file to put in place, under a temporary name. sidecars: in place; no checkpoint names them yet.
    digest:    of its file actions.
    """

    top_level: FileStatus
    target: str
    digest: FileDigest
    sidecars: tuple[FileStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointWriter:
    """Writes the checkpoint of one version.

    snapshot: the version, of the log or of a store. Its retention decides which tombstones are left out.
    read:     files of the log that the version depends on: nothing is written if one of them has changed.
    damaged:  checkpoint files of the version that cannot be read, each with a new name, which no reader opens. They are
              renamed right before the new checkpoint is put in place.
    """

    context: TableContext
    storage: WritableFiles
    snapshot: TableVersion
    read: tuple[FileStatus, ...]
    damaged: Mapping[FileStatus, str] = field(default_factory=dict)

    def write(self) -> WrittenCheckpoint:
        """Write the checkpoint unless the version has one. See `DeltaLog.checkpoint`."""
        if (existing := self._existing()) is not None:
            self._rename_damaged()
            return WrittenCheckpoint.existing(existing)
        staging = join_url(self._log_path, f"{TEMPORARY_PREFIX}checkpoint-{uuid4().hex}")
        try:
            return self._written(staging)
        finally:
            self.storage.delete_folder(staging)

    def _check_times(self) -> None:
        """Raise UnsupportedSettingError if the session writes other dates and times than those of the rows."""
        for name, refused in _CHANGES_TIMES.items():
            value = self.context.engine.sessions.setting(name)
            if value is not None and value.upper() in refused:
                reason = "with it, a checkpoint would have dates and times that other readers misread"
                raise UnsupportedSettingError(setting=f"{name}={value}", reason=reason)

    def _existing(self) -> CheckpointProvider | None:
        names = {file.name for file in self.damaged}
        listed = self.context.table_log.list(self._version).without_checkpoints(names).checkpoints
        return next((checkpoint for checkpoint in listed if checkpoint.version == self._version), None)

    def _written(self, staging: str) -> WrittenCheckpoint:
        expected = self.snapshot.computed_state
        _ = self.snapshot.schema, self.snapshot.scanned_table().columns  # both must be readable
        columns = CheckpointColumns.of(self.snapshot.metadata, self.snapshot.protocol)
        if columns.has_times:
            self._check_times()
        draft = self.snapshot.versions.run(partial(self._draft, columns, staging))
        is_placed = False
        try:
            contents = self._read_back(draft, expected, columns)
            self._check_log_unchanged()
            existing = self._existing()
            is_placed = existing is None and self._placed(draft)
        finally:
            if not is_placed:
                self._discard(draft)
        if not is_placed:
            return WrittenCheckpoint.existing(existing or self._winner(draft))
        return self._announced(draft, contents, expected)

    def _draft(self, columns: CheckpointColumns, staging: str, version: Version) -> _Draft:
        session = self.context.session(_WORK)
        with translated(*version.read_files):
            files, observed = self._observed(version.file_actions(), columns)
            if self._is_v2:
                return self._v2(files, observed, columns, staging)
            return self._classic(columns.all_rows(session, files, self._non_file), files, observed, staging)

    def _classic(self, rows: DataFrame, files: DataFrame | None, observed: Observation, staging: str) -> _Draft:
        # Many: all tasks parse the statistics, one writes.
        in_one = rows.coalesce(1) if self._num_actions <= ACTIONS_A_SIDECAR else rows.repartition(1)
        (part,) = self._written_files(in_one, staging)
        digest = NO_FILES if files is None else FileDigest.of(observed.get)
        return _Draft(top_level=part, target=join_url(self._log_path, checkpoint_file(self._version)), digest=digest)

    def _v2(self, files: DataFrame | None, observed: Observation, columns: CheckpointColumns, staging: str) -> _Draft:
        count = max(1, -(-self._num_actions // ACTIONS_A_SIDECAR))
        parts, digest = list[FileStatus](), NO_FILES
        if files is not None:
            in_files = files.coalesce(1) if count == 1 else files.repartition(count, "path_key")
            parts = self._written_files(columns.file_rows(in_files), staging)
            digest = FileDigest.of(observed.get)
        placed = list[FileStatus]()
        try:
            for part in parts:
                placed.append(self._placed_sidecar(part))
            return self._v2_draft(tuple(placed), digest, staging)
        except BaseException:
            self.storage.delete(sidecar.path for sidecar in placed)
            raise

    def _v2_draft(self, sidecars: tuple[FileStatus, ...], digest: FileDigest, staging: str) -> _Draft:
        metadata, version = self.snapshot.metadata, self._version
        actions = [{"checkpointMetadata": {"version": version}}, *map(_sidecar_action, sidecars)]
        lines = "".join(f"{json.dumps(action)}\n" for action in (*actions, *self._non_file.rows()))
        top_level = join_url(staging, "top-level.json")
        self.storage.write(top_level, lines.encode())
        # The name is the same for every writer, so that only one of several concurrent writers puts its file in place.
        name = uuid_checkpoint_file(version, str(uuid5(NAMESPACE_URL, f"{metadata.id}/{version}")), "json")
        target = join_url(self._log_path, name)
        return _Draft(top_level=self._status(top_level), target=target, digest=digest, sidecars=sidecars)

    def _observed(self, files: DataFrame | None, columns: CheckpointColumns) -> tuple[DataFrame | None, Observation]:
        """Return file actions without expired tombstones, and what observes their digest while Spark writes them."""
        observed = Observation()
        if files is None:
            return None, observed
        retention = self.snapshot.versions.version.retention
        return FULL.unexpired(files, retention).observe(observed, *columns.digest()), observed

    def _written_files(self, rows: DataFrame, staging: str) -> list[FileStatus]:
        """Write rows into a new folder. Return its files with rows."""
        folder = join_url(staging, uuid4().hex)
        write_parquet(self.context.files, rows, folder, _OPTIONS)
        written = self.storage.walk(folder)
        return [status for status in written if status.name.endswith(".parquet") and status.size]

    def _placed_sidecar(self, part: FileStatus) -> FileStatus:
        target = join_url(join_url(self._log_path, SIDECAR_FOLDER), f"{uuid4()}.parquet")
        if not self.storage.move_new(part.path, target):
            raise StorageError(path=target, reason="expected no file of this new name")
        return self._status(target)

    def _read_back(self, draft: _Draft, expected: SnapshotState, columns: CheckpointColumns) -> CheckpointContents:
        """Return the contents of a draft, as readers will see them. Errors: CheckpointMismatchError."""
        store, provider, digest = self.context.table_log.store, self._provider(draft.top_level), draft.digest
        try:
            contents = open_checkpoint(store, provider, self._log_path)
            log = LoadedLog(
                segment=self._segment_of(provider),
                checkpoint=contents,
                batch=EMPTY_BATCH,
                non_file=load_non_file_actions(store, contents, EMPTY_BATCH),
                builder=self.context.table_log.builder,
            )
            with translated(log.files):
                found = compute_state(self.context, log, KEEP_ALL).state
                files = reconciled_files(self.context.reader(self.context.session(_WORK)), log)
                row = None if files is None else files.agg(*columns.digest()).first()
        except CorruptLogError as error:
            raise self._mismatch(f"it cannot be read: {error}") from error
        differences = _differences(expected, found, ignored=() if columns.keeps_records else _RECORDS)
        read_digest = NO_FILES if row is None else FileDigest.of(row.asDict())
        if read_digest != digest:
            differences.append(f"digest of the files: expected {digest}, found {read_digest}")
        if (digest.files, digest.tombstones) != (expected.num_of_files, expected.num_of_removes):
            differences.append(f"actions: expected {expected.num_of_files} files, found {digest}")
        if differences:
            raise self._mismatch(*differences)
        return contents

    def _segment_of(self, provider: CheckpointProvider) -> LogSegment:
        return LogSegment(
            log_path=self._log_path,
            version=self._version,
            deltas=(),
            checkpoint_provider=provider,
            last_commit_timestamp=provider.files[0].modification_time,
        )

    def _check_log_unchanged(self) -> None:
        kinds = {file: parsed.kind for file in self.read if (parsed := ParsedLogPath.parse(file.name)) is not None}
        checkpoint = [file for file, kind in kinds.items() if kind is LogFileKind.CHECKPOINT]
        commits = {commit_version(file.path): file for file in self.read if file not in checkpoint}
        read = LogListing(log_path=self._log_path, commits=commits, checkpoints=(), compactions=(), checksums={})
        check_unchanged(read, self.context.table_log.list(min(commits, default=self._version)), checkpoint)

    def _placed(self, draft: _Draft) -> bool:
        self._rename_damaged()
        drop_side_file(self.storage, draft.target)
        if self.storage.move_new(draft.top_level.path, draft.target):
            return True
        # If the storage fails after the move, it reports the name as taken, perhaps by this very file.
        return bool(draft.sidecars) and self.storage.read(draft.target) == self.storage.read(draft.top_level.path)

    def _rename_damaged(self) -> None:
        """Rename the damaged files, unless another process has replaced or renamed them."""
        if not self.damaged:
            return
        now = self.context.table_log.list(self._version)
        listed = {file for each in now.checkpoints for file in each.files}
        listed |= {file for each, _ in now.unusable_checkpoints for file in each.files}
        for file in self.damaged.keys() & listed:  # some storages round the time of a single file
            target = join_url(self._log_path, self.damaged[file])
            if not self.storage.move_new(file.path, target):
                raise StorageError(path=target, reason="expected no file of this new name")
            _log.info("Renamed the damaged file %s to %s", redacted(file.path), redacted(target))

    def _discard(self, draft: _Draft) -> None:
        """Delete the sidecars of a draft that is not in place. Keep them if this is uncertain."""
        if not draft.sidecars:
            return
        placed = self.storage.status(draft.target)
        if placed is None or not _names_any(self.storage.read(draft.target), draft.sidecars):
            self.storage.delete(file.path for file in draft.sidecars)

    def _winner(self, draft: _Draft) -> CheckpointProvider:
        """Return the checkpoint that another writer has put in place. Errors: StorageError if there is none."""
        if (found := self._existing()) is not None:
            return found
        raise StorageError(path=draft.target, reason="expected no file or a complete checkpoint of this name")

    def _announced(self, draft: _Draft, contents: CheckpointContents, state: SnapshotState) -> WrittenCheckpoint:
        placed = self._status(draft.target)
        written = WrittenCheckpoint(
            version=self._version,
            is_new=True,
            kind="uuid" if self._is_v2 else "classic",
            files=(placed, *draft.sidecars),
            num_of_actions=contents.num_rows,
            num_of_add_files=state.num_of_files,
        )
        _log.info("Wrote the checkpoint %s", redacted(draft.target))
        hint = replace(
            hint_of(self._provider(placed), written.num_of_actions),
            size_in_bytes=written.size_in_bytes,
            num_of_add_files=written.num_of_add_files,
        )
        return replace(written, is_hint_written=write_hint(self.storage, self.context.table_log, hint))

    def _provider(self, file: FileStatus) -> CheckpointProvider:
        return CheckpointProvider(
            version=self._version,
            files=(file,),
            kind=CheckpointKind.UUID if self._is_v2 else CheckpointKind.CLASSIC,
            format="json" if self._is_v2 else "parquet",
        )

    def _status(self, path: str) -> FileStatus:
        status = self.storage.status(path)
        if status is None:
            raise StorageError(path=path, reason="expected the file that was just written, found none")
        return status

    def _mismatch(self, *differences: str) -> CheckpointMismatchError:
        return CheckpointMismatchError(path=self._table_path, version=self._version, differences=differences)

    @property
    def _is_v2(self) -> bool:
        policy = checkpoint_policy(self.snapshot.metadata.configuration)
        return policy == "v2" and "v2Checkpoint" in self.snapshot.protocol.features

    @property
    def _num_actions(self) -> int:
        state = self.snapshot.computed_state
        return state.num_of_files + state.num_of_removes

    @property
    def _version(self) -> int:
        return self.snapshot.version

    @property
    def _non_file(self) -> NonFileActions:
        return NonFileActions.of(self.snapshot.computed_state)

    @property
    def _log_path(self) -> str:
        return self.context.table_log.log_path

    @property
    def _table_path(self) -> str:
        return self.context.table_log.table_path


def _sidecar_action(file: FileStatus) -> dict[str, object]:
    values = {"path": file.name, "sizeInBytes": file.size, "modificationTime": file.modification_time}
    return {"sidecar": values}


def _names_any(content: bytes, sidecars: tuple[FileStatus, ...]) -> bool:
    return any(file.name.encode() in content for file in sidecars)


def _differences(expected: SnapshotState, found: SnapshotState, *, ignored: tuple[str, ...]) -> list[str]:
    differences = []
    for name in (each.name for each in fields(SnapshotState) if each.name not in ignored):
        one, other = getattr(expected, name), getattr(found, name)
        if one != other:
            differences.append(f"{name}: expected {one}, found {other}" if isinstance(one, int) else name)
    return differences
