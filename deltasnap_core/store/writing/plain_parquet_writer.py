"""Writes `all_files` and `tombstones` of stored versions as plain Parquet, one folder per version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from uuid import uuid4

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from deltasnap_core.errors import UnsupportedServerError
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.layout import ALL_FILES, STAGING, TOMBSTONES, plain_parquet_path
from deltasnap_core.store.format.manifest import PlainParquetFiles, StoreFile, VersionManifest
from deltasnap_core.store.rows.plain_parquet_rows import all_files_by_version, rows_by_version, tombstones_by_version
from deltasnap_core.store.rows.spark_rows import SparkRows


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainParquetWriter:
    """Writes plain Parquet for versions of one generation, many versions in one pass.

    check: called before written files replace those of another run. Raises if the log has changed: the other run may
    have stored versions of the new log under the same numbers.
    """

    rows: SparkRows
    check: Callable[[], object]

    def write(self, manifests: Sequence[VersionManifest]) -> list[VersionManifest]:
        """Write plain Parquet for versions, ascending. Return their manifests with these files added, not committed."""
        done: list[VersionManifest] = []
        for run in _runs_on_one_base(manifests):
            done += self._write_run(run)
        return done

    def _write_run(self, run: Sequence[VersionManifest]) -> list[VersionManifest]:
        first, last = run[0].version, run[-1].version
        changes = self.rows.changes(run[-1].changes, last)
        if changes is not None:
            changes = changes.where(F.col("version") > first)
        rows = rows_by_version(self.rows.state_of(run[0]), changes, first, last)
        retentions = {manifest.version: manifest.retention for manifest in run}
        all_files = self._write_kind(ALL_FILES, ADD, None if rows is None else all_files_by_version(rows), retentions)
        removed = None if rows is None else tombstones_by_version(rows, retentions)
        tombstones = self._write_kind(TOMBSTONES, REMOVE, removed, retentions)
        return [
            replace(
                manifest,
                plain_parquet=PlainParquetFiles(
                    all_files=all_files[manifest.version], tombstones=tombstones[manifest.version]
                ),
            )
            for manifest in run
        ]

    def _write_kind(
        self, kind: str, schema: StructType, rows: DataFrame | None, versions: Iterable[int]
    ) -> dict[int, StoreFile]:
        """Write one file per version into a staging folder, then move each. A version without rows gets a file too."""
        parquet, staging = self.rows.parquet, f"{STAGING}/{uuid4().hex[:12]}"
        wanted, found = list(versions), dict[int, StoreFile]()
        try:
            if rows is not None:
                # Partition by version: no task has only a part of a version, so each version is one file.
                in_files = rows.repartition(min(len(wanted), 200), "version").sortWithinPartitions("version")
                files = parquet.write(in_files, f"{staging}/rows", partition_by="version")
                self.check()
                for file in files:
                    version = int(file.path.rpartition("/")[0].rpartition("=")[2])
                    if version in found:
                        reason = f"it wrote more than one for version {version}"
                        raise UnsupportedServerError(work="write one file for each version", reason=reason)
                    found[version] = self._moved(file, plain_parquet_path(kind, version))
            if missing := [version for version in wanted if version not in found]:
                none = parquet.no_rows(schema).coalesce(1)
                (empty,) = parquet.write(none, f"{staging}/empty", keep_empty=True)
                self.check()
                content = parquet.storage.read(join_url(parquet.folder, empty.path))
                for version in missing:
                    found[version] = _replaceable(empty, plain_parquet_path(kind, version))
                parquet.storage.write_many({join_url(parquet.folder, found[v].path): content for v in missing})
        finally:
            parquet.storage.delete_folder(join_url(parquet.folder, staging))
        return found

    def _moved(self, file: StoreFile, path: str) -> StoreFile:
        folder = self.rows.parquet.folder
        self.rows.parquet.storage.move(join_url(folder, file.path), join_url(folder, path))
        return _replaceable(file, path)


def _replaceable(file: StoreFile, path: str) -> StoreFile:
    """Return a file at a path that another run may overwrite with the same rows in other bytes."""
    return replace(file, path=path, footer=None)


def _runs_on_one_base(manifests: Sequence[VersionManifest]) -> list[list[VersionManifest]]:
    """Return the versions split into runs: consecutive, and with the same base."""
    numbered = groupby(enumerate(manifests), lambda each: (each[1].base, each[1].version - each[0]))
    return [[manifest for _, manifest in run] for _, run in numbered]
