"""Writes `all_files` and `tombstones` of stored versions as plain Parquet, one folder per version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from uuid import uuid4

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.errors import UnsupportedServerError
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.layout import ALL_FILES, STAGING, TOMBSTONES, plain_parquet_path
from deltasnap_core.store.format.manifest import PlainParquetFiles, StoreFile, VersionManifest
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.plain_parquet_rows import all_files_by_version, rows_by_version, tombstones_by_version
from deltasnap_core.store.rows.spark_rows import SparkRows

_SCHEMAS = {ALL_FILES: ADD, TOMBSTONES: REMOVE}


def write_plain_parquet(
    stored: SparkRows, manifests: Sequence[VersionManifest], check: Callable[[], object]
) -> list[VersionManifest]:
    """Write plain Parquet for versions of one generation, ascending, many versions in one pass.

    Return their manifests with these files added, not committed.
    check: called before written files replace those of another run. Raises if the log has changed: the other run may
    have stored versions of the new log under the same numbers.
    """
    done: list[VersionManifest] = []
    for run in _runs_on_one_base(manifests):
        done += _write_run(stored, run, check)
    return done


def _write_run(stored: SparkRows, run: Sequence[VersionManifest], check: Callable[[], object]) -> list[VersionManifest]:
    first, last = run[0].version, run[-1].version
    changes = stored.changes(run[-1].changes, last)
    if changes is not None:
        changes = changes.where(F.col("version") > first)
    rows = rows_by_version(stored.state_of(run[0]), changes, first, last)
    retentions = {manifest.version: manifest.retention for manifest in run}
    live = None if rows is None else all_files_by_version(rows)
    all_files = _write_kind(stored.parquet, ALL_FILES, live, retentions, check)
    removed = None if rows is None else tombstones_by_version(rows, retentions)
    tombstones = _write_kind(stored.parquet, TOMBSTONES, removed, retentions, check)
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
    parquet: ParquetFiles, kind: str, rows: DataFrame | None, versions: Iterable[int], check: Callable[[], object]
) -> dict[int, StoreFile]:
    """Write one file per version into a staging folder, then move each. A version without rows gets a file too."""
    staging = f"{STAGING}/{uuid4().hex[:12]}"
    wanted, found = list(versions), dict[int, StoreFile]()
    try:
        if rows is not None:
            # Partition by version: no task has only a part of a version, so each version is one file.
            in_files = rows.repartition(min(len(wanted), 200), "version").sortWithinPartitions("version")
            files = parquet.write(in_files, f"{staging}/rows", partition_by="version")
            check()
            for file in files:
                version = int(file.path.rpartition("/")[0].rpartition("=")[2])
                if version in found:
                    reason = f"it wrote more than one for version {version}"
                    raise UnsupportedServerError(work="write one file for each version", reason=reason)
                found[version] = _replaceable(file, plain_parquet_path(kind, version))
                target = join_url(parquet.folder, found[version].path)
                parquet.storage.move(join_url(parquet.folder, file.path), target)
        if missing := [version for version in wanted if version not in found]:
            none = parquet.no_rows(_SCHEMAS[kind]).coalesce(1)
            (empty,) = parquet.write(none, f"{staging}/empty", keep_empty=True)
            check()
            content = parquet.storage.read(join_url(parquet.folder, empty.path))
            for version in missing:
                found[version] = _replaceable(empty, plain_parquet_path(kind, version))
            parquet.storage.write_many({join_url(parquet.folder, found[v].path): content for v in missing})
    finally:
        parquet.storage.delete_folder(join_url(parquet.folder, staging))
    return found


def _replaceable(file: StoreFile, path: str) -> StoreFile:
    """Return a file at a path that another run may overwrite with the same rows in other bytes."""
    return replace(file, path=path, footer=None)


def _runs_on_one_base(manifests: Sequence[VersionManifest]) -> list[list[VersionManifest]]:
    """Return the versions split into runs: consecutive, and with the same base."""
    numbered = groupby(enumerate(manifests), lambda each: (each[1].base, each[1].version - each[0]))
    return [[manifest for _, manifest in run] for _, run in numbered]
