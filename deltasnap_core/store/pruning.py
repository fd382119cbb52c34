"""What a store holds of a table, and how to make it less."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.stored_table import StoredTable
from deltasnap_core.store.stored_versions import StoredVersions

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """What is stored of a table: versions and generations, files and their bytes, manifests and all else included.

    num_versions:           those that count: of the current generation, and shared with those it forked off.
    num_unreferenced_files: of no version: being written at the moment, or left by a run that was killed; `prune`
                            removes the old ones.
    """

    num_versions: int
    num_generations: int
    num_files: int
    size_in_bytes: int
    num_unreferenced_files: int
    unreferenced_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What was removed: versions that counted, generations that were replaced, files and their bytes.

    Of a generation that others forked off goes what they do not share.
    """

    versions: tuple[int, ...]
    generations: tuple[str, ...]
    num_files: int
    size_in_bytes: int


def usage(table: StoredTable) -> StoreUsage:
    """Return what is stored of a table, by a listing of all of it and a reading of every manifest."""
    files = table.storage.walk(table.folder)
    versions = table.stored_versions()
    unreferenced = _unreferenced(table, files, versions)
    return StoreUsage(
        num_versions=len(versions.current()),
        num_generations=len(versions.generations),
        num_files=len(files),
        size_in_bytes=sum(file.size for file in files),
        num_unreferenced_files=len(unreferenced),
        unreferenced_bytes=sum(file.size for file in unreferenced),
    )


def prune(
    table: StoredTable, *, keep: int | None = None, keep_generations: int = 1, min_age_ms: int = DAY_MS
) -> PruneReport:
    """Remove versions, and the data of no version.

    keep:             how many of the latest versions stay, at least 1; None: all that count.
    keep_generations: how many of the latest generations stay whole, at least 1, with what they share with those that
                      they forked off.
    min_age_ms:       how long ago a file of no version must have been written to be removed: longer than any run takes
                      to write a range, since what it writes belongs to no version before its end.
    Manifests go first: a version that loses its data is no longer one. The latest version always stays, and with it
    all that later ones are built on.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be 1 or more, or None, not {keep}")
    if keep_generations < 1:
        raise ValueError(f"keep_generations must be 1 or more, not {keep_generations}")
    versions = table.stored_versions()
    generations, current = versions.generations, versions.current()
    old = set[ManifestName]() if keep is None else set(current[:-keep])
    kept_whole = generations[-keep_generations:]
    shared = {name for generation in kept_whole for name in versions.lineage(generation)}
    in_use = {ancestor for generation in kept_whole for ancestor, _ in versions.ancestry(generation)}
    dropped = [generation for generation in generations if generation not in in_use]
    manifests = {
        table.manifest_url(name)
        for name in versions.manifests
        if name in old or (name.generation not in kept_whole and name not in shared)
    }
    files = table.storage.walk(table.folder)
    table.storage.delete(manifests)
    table.storage.delete(table.fork_url(generation) for generation in versions.forks if generation in dropped)
    latest = time.time_ns() // 1_000_000 - min_age_ms
    unreferenced = _unreferenced(table, files, table.stored_versions())
    gone = [file for file in unreferenced if file.path in manifests or file.modification_time <= latest]
    table.storage.delete(file.path for file in gone)
    return PruneReport(
        versions=tuple(name.version for name in current if name in old),
        generations=tuple(dropped),
        num_files=len(gone),
        size_in_bytes=sum(file.size for file in gone),
    )


def _unreferenced(table: StoredTable, files: Iterable[FileStatus], versions: StoredVersions) -> list[FileStatus]:
    """Return the files that are neither manifests nor named by one.

    files: listed before the versions, so that what a run has just committed counts as named.
    """
    named = {table.manifest_url(name) for name in versions.manifests}
    named |= {table.fork_url(generation) for generation in versions.forks}
    for manifest in table.read_manifests(versions.manifests):
        named.update(table.file_urls(manifest))
    return [file for file in files if file.path not in named]
