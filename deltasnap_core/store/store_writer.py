"""Writes a range of versions of one table: what is missing of it, each run of versions in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltasnap_core.errors import CorruptStoreError, StoredVersionNotFoundError
from deltasnap_core.log.log_range import LogRange
from deltasnap_core.ranges import contiguous_runs
from deltasnap_core.replay.stats_policy import StatsPolicy
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.store.change_sets import ChangePolicy
from deltasnap_core.store.generations import generation_of_log, new_generation
from deltasnap_core.store.layout import ManifestName
from deltasnap_core.store.manifest import VersionManifest
from deltasnap_core.store.parquet_files import ParquetFiles
from deltasnap_core.store.plain_parquet_writer import TableWriter
from deltasnap_core.store.range_writer import Progress, RangeWriter
from deltasnap_core.store.stored_rows import StoredRows
from deltasnap_core.store.stored_table import StoredTable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWriter:
    """Stores versions of one table as its log has them."""

    table: StoredTable
    parquet: ParquetFiles
    log: DeltaLog
    policy: ChangePolicy
    progress: Progress

    def write(self, first: int, last: int, *, as_tables: bool) -> tuple[VersionManifest, ...]:
        """Store the versions first to last that are not whole yet, and give the manifests of all of them.

        as_tables: write `all_files` and `tombstones` of each version out as well.
        Errors: those of reading the log; CorruptStoreError. What is stored stays as it was then.
        """
        names, log = self.table.manifest_names(), self.log.context.log
        generation = generation_of_log(self.table, log, names, last)
        if generation is None:
            generation, stored = new_generation(log, names, first), dict[int, VersionManifest]()
        else:
            stored = self._whole(names, generation, first - 1, last)
        for start, end in contiguous_runs(version for version in range(first, last + 1) if version not in stored):
            writer = self._range_writer(generation, log.range(start, end))
            for manifest in _write_run(writer, start, end, stored.get(start - 1)):
                stored[manifest.version] = manifest
        manifests = [stored[version] for version in range(first, last + 1)]
        return tuple(self._with_tables(generation, manifests) if as_tables else manifests)

    def _range_writer(self, generation: str, logged: LogRange) -> RangeWriter:
        rows = self._rows(generation)
        return RangeWriter(
            table=self.table,
            generation=generation,
            context=self.log.context,
            logged=logged,
            rows=rows,
            digest_rows=rows.with_actions(self.log.context.reader(StatsPolicy.NUM_RECORDS).schema),
            policy=self.policy,
            progress=self.progress,
        )

    def _whole(
        self, names: Sequence[ManifestName], generation: str, first: int, last: int
    ) -> dict[int, VersionManifest]:
        """Give the stored versions of a range whose every file is there, by version."""
        wanted = [name for name in names if name.generation == generation and first <= name.version <= last]
        manifests = self._read(wanted)
        broken = self.table.missing_files(manifests)
        return {m.version: m for m in manifests if broken.keys().isdisjoint(self.table.files_of(m))}

    def _read(self, names: Sequence[ManifestName]) -> tuple[VersionManifest, ...]:
        try:
            return self.table.read_manifests(names)
        except (CorruptStoreError, StoredVersionNotFoundError):
            return self.table.read_sound_manifests(names)  # one by one: a broken one is written again

    def _with_tables(self, generation: str, manifests: list[VersionManifest]) -> list[VersionManifest]:
        missing = [manifest for manifest in manifests if manifest.tables is None]
        if not missing:
            return manifests
        first, last = missing[0].version, missing[-1].version
        self.progress(f"Writing the tables of versions {first} to {last}", 0, len(missing))
        written = {m.version: m for m in TableWriter(rows=self._rows(generation)).write(missing)}
        self.table.commit(written.values())
        return [written.get(manifest.version, manifest) for manifest in manifests]

    def _rows(self, generation: str) -> StoredRows:
        parquet = self.parquet.below(self.table.generation_folder(generation))
        return StoredRows(parquet=parquet, log_path=self.log.path)


def _write_run(
    writer: RangeWriter, first: int, last: int, previous: VersionManifest | None
) -> Iterator[VersionManifest]:
    """Store consecutive versions: a base where nothing precedes or the commit is gone, changes elsewhere."""
    version = first
    while version <= last:
        if previous is None or not writer.logged.has_commit(version):
            previous = writer.write_first(version)
            yield previous
        else:
            end = next((v for v in range(version, last + 1) if not writer.logged.has_commit(v)), last + 1) - 1
            written = writer.write_after(previous, end)
            yield from written
            previous = written[-1]
        version = previous.version + 1
