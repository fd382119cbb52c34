"""What a store holds of a table, and how to make it less."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.store.layout import ManifestName
from deltasnap_core.store.stored_table import StoredTable

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """What is stored of a table: versions and generations, files and their bytes, manifests and all else included.

    num_versions: of the current generation. num_unreferenced_files: of no version: being written at the moment, or
    left by a run that was killed; `prune` removes the old ones.
    """

    num_versions: int
    num_generations: int
    num_files: int
    size_in_bytes: int
    num_unreferenced_files: int
    unreferenced_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What was removed: versions of the current generation, generations that were replaced, files and their bytes."""

    versions: tuple[int, ...]
    generations: tuple[str, ...]
    num_files: int
    size_in_bytes: int


def usage(table: StoredTable) -> StoreUsage:
    """Give what is stored of a table, by a listing of all of it and a reading of every manifest."""
    files = table.files.walk(table.folder)
    names = table.manifest_names()
    unreferenced = _unreferenced(table, files, names)
    current = names[-1].generation if names else None
    return StoreUsage(
        num_versions=sum(name.generation == current for name in names),
        num_generations=len({name.generation for name in names}),
        num_files=len(files),
        size_in_bytes=sum(file.size for file in files),
        num_unreferenced_files=len(unreferenced),
        unreferenced_bytes=sum(file.size for file in unreferenced),
    )


def prune(
    table: StoredTable, *, keep: int | None = None, keep_generations: int = 1, min_age_ms: int = DAY_MS
) -> PruneReport:
    """Remove versions, and the data of no version.

    keep:             how many of the latest versions stay, at least 1; None: all of the current generation.
    keep_generations: how many of the latest generations stay, at least 1; those replaced stay whole.
    min_age_ms:       how long ago a file of no version must have been written to be removed: longer than any run takes
                      to write a range, since what it writes belongs to no version before its end.
    Manifests go first: a version that loses its data is no longer one. The latest version always stays, and with it
    all that later ones are built on.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be 1 or more, or None, not {keep}")
    if keep_generations < 1:
        raise ValueError(f"keep_generations must be 1 or more, not {keep_generations}")
    names = table.manifest_names()
    generations = sorted({name.generation for name in names})
    dropped = generations[:-keep_generations]
    current = [name for name in names if name.generation == generations[-1]]
    old = [] if keep is None else current[:-keep]
    manifests = {table.manifest_url(name) for name in old}
    manifests |= {table.manifest_url(name) for name in names if name.generation in dropped}
    files = table.files.walk(table.folder)
    table.files.delete(manifests)
    latest = time.time_ns() // 1_000_000 - min_age_ms
    unreferenced = _unreferenced(table, files, table.manifest_names())
    gone = [file for file in unreferenced if file.path in manifests or file.modification_time <= latest]
    table.files.delete(file.path for file in gone)
    return PruneReport(
        versions=tuple(name.version for name in old),
        generations=tuple(dropped),
        num_files=len(gone),
        size_in_bytes=sum(file.size for file in gone),
    )


def _unreferenced(table: StoredTable, files: Iterable[FileStatus], names: tuple[ManifestName, ...]) -> list[FileStatus]:
    """Give the files that are neither manifests nor named by one.

    files: listed before the names, so that what a run has just committed counts as named.
    """
    named = {table.manifest_url(name) for name in names}
    for manifest in table.read_manifests(names):
        named.update(table.files_of(manifest))
    return [file for file in files if file.path not in named]
