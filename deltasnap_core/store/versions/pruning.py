"""Reports the stored data of a table, and removes old data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltasnap_core.clock import system_clock
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.store.versions.stored_table import StoredTable
from deltasnap_core.store.versions.stored_versions import StoredVersions

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """The stored data of a table: versions, generations, and all files with their bytes, including manifests.

    num_versions:           the current versions: of the newest generation, and those shared with generations it forked
                            off.
    num_unreferenced_files: files of no version: they are being written, or a killed run left them behind. `prune`
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
    """The removed data: current versions, replaced generations, files and their bytes.

    If other generations forked off a generation, the versions that they share are kept.
    pruned_before: earlier versions that are not stored were pruned, now or before; 0: none were.
    """

    versions: tuple[int, ...]
    generations: tuple[str, ...]
    num_files: int
    size_in_bytes: int
    pruned_before: int


def usage(table: StoredTable) -> StoreUsage:
    """Return the stored data of a table. Lists all its files and reads every manifest."""
    files = table.storage.walk(table.folder)
    versions = table.stored_versions()
    unreferenced = _unreferenced(table, files, versions)
    return StoreUsage(
        num_versions=len(versions.current),
        num_generations=len(versions.generations),
        num_files=len(files),
        size_in_bytes=sum(file.size for file in files),
        num_unreferenced_files=len(unreferenced),
        unreferenced_bytes=sum(file.size for file in unreferenced),
    )


def prune(
    table: StoredTable, *, keep: int | None = None, keep_generations: int = 1, min_age_ms: int = DAY_MS
) -> PruneReport:
    """Remove versions, and files that belong to no version. Arguments and errors: see SnapshotStore.prune.

    All remaining manifests are read before anything is removed. A marker then records that earlier versions were
    pruned: without it, they count as lost. Manifests are removed first: a version never loses its data before its
    manifest.
    """
    if keep is not None and keep < 1:
        raise ValueError(f"keep must be 1 or more, or None, not {keep}")
    if keep_generations < 1:
        raise ValueError(f"keep_generations must be 1 or more, not {keep_generations}")
    files, versions = table.storage.walk(table.folder), table.stored_versions()  # in this order: see _unreferenced
    kept = versions.pruned(keep, keep_generations)
    unreferenced = _unreferenced(table, files, kept)
    removed = set(versions.manifests).difference(kept.manifests)
    manifests = {table.manifest_url(name) for name in removed}
    for name in set(kept.kept).difference(versions.kept):
        table.mark_pruned(name)
    table.storage.delete(manifests)
    table.storage.delete(table.fork_url(generation) for generation in set(versions.forks).difference(kept.forks))
    table.storage.delete(table.pruned_url(name) for name in set(versions.kept).difference(kept.kept))
    latest = system_clock() - min_age_ms
    gone = [file for file in unreferenced if file.path in manifests or file.modification_time <= latest]
    table.storage.delete(file.path for file in gone)
    return PruneReport(
        versions=tuple(name.version for name in versions.current if name in removed),
        generations=tuple(sorted(set(versions.generations).difference(versions.in_use(keep_generations)))),
        num_files=len(gone),
        size_in_bytes=sum(file.size for file in gone),
        pruned_before=kept.pruned_before,
    )


def _unreferenced(table: StoredTable, files: Iterable[FileStatus], versions: StoredVersions) -> list[FileStatus]:
    """Return the files that are neither manifests nor named by one.

    files: listed before the versions, so that files of a run that has just committed count as named.
    """
    named = {table.manifest_url(name) for name in versions.manifests}
    named |= {table.fork_url(generation) for generation in versions.forks}
    named |= {table.pruned_url(name) for name in versions.kept}
    named.add(table.poll_url)
    for manifest in table.read_manifests(versions.manifests):
        named.update(table.file_urls(manifest))
    return [file for file in files if file.path not in named]
