"""Writes a range of versions of one table: only the missing ones, each run of versions in one pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import overload

from deltasnap_core.errors import CorruptLogError, StoreChangedError
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.damaged_commit import without_damaged
from deltasnap_core.log.listing.changing_log import check_unchanged, is_cleaned_up, list_again
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.log_range import LogRange
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.ranges import contiguous_runs
from deltasnap_core.redaction import logger_of
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.format.layout import ManifestName, fork_of
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.versions.common_version import CommonVersion, find_common_version, is_version_of
from deltasnap_core.store.versions.stored_table import StoredTable, name_of
from deltasnap_core.store.versions.stored_versions import StoredVersions
from deltasnap_core.store.writing.plain_parquet_writer import write_plain_parquet
from deltasnap_core.store.writing.range_writer import Progress, RangeWriter

_log = logger_of(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRange(Sequence[VersionManifest]):
    """The manifests of some versions, ascending, and facts about the run that stored them.

    common:   the relation of the log to the versions that were stored before.
    written:  the versions that were written; the others were stored already.
    current:  the manifest names of all current stored versions, ascending.
    findings: about the commits that were read.
    """

    manifests: tuple[VersionManifest, ...]
    common: CommonVersion
    written: tuple[int, ...]
    current: Mapping[int, ManifestName]
    findings: CommitFindings

    @overload
    def __getitem__(self, index: int) -> VersionManifest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[VersionManifest]: ...
    def __getitem__(self, index: int | slice) -> VersionManifest | Sequence[VersionManifest]:
        """Return a manifest by its position."""
        return self.manifests[index]

    def __len__(self) -> int:
        """Return the number of versions."""
        return len(self.manifests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredBefore:
    """What is stored already, and the log that it was compared with.

    manifests: by version, of the wanted versions and their predecessors, if the log has them and all their files exist.
    """

    versions: StoredVersions
    listing: LogListing
    common: CommonVersion
    manifests: Mapping[int, VersionManifest]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWriter:
    """Stores versions of one table from its log."""

    stored: StoredTable
    parquet: ParquetFiles
    log: DeltaLog
    policy: ChangePolicy
    progress: Progress

    @property
    def _table_log(self) -> TableLog:
        return self.log.context.table_log

    def write(
        self,
        wanted: Sequence[int],
        *,
        as_plain_parquet: bool,
        listing: LogListing | None,
        common: CommonVersion | None = None,
    ) -> StoredRange:
        """Store the given versions (ascending) that are not complete yet. Return the manifests of all of them.

        Manifests are written at the end, after a check that the log did not change: all or none. If a commit is cleaned
        up before it is read, the log is listed again: the versions may start from a newer checkpoint now. A commit that
        cannot be read counts as missing if its version has a checkpoint.
        as_plain_parquet: also write `all_files` and `tombstones` of each version.
        listing: of the log, to its end; None: list the log.
        common: the relation of that log to the stored versions; None: compare them.
        Errors: those of reading the log; LogChangedError; StoreChangedError; CorruptStoreError. Stored versions are
        then not changed.
        """
        known, findings = self._known(wanted, listing, common), CommitFindings()
        written = None
        while written is None:
            try:
                written = self._write_missing(known, wanted, findings)
            except CorruptLogError as error:
                known, findings = self._known_after(error, known, wanted), CommitFindings()
            except Exception:
                self._check_unchanged(known.listing)  # if the log was replaced in the meantime, any file may be missing
                raise
        generation, new = written
        found = [{**known.manifests, **new}[version] for version in wanted]
        plain = self._with_plain_parquet(found, known.listing) if as_plain_parquet else {}
        changed = {**new, **plain}
        if changed or not known.common.is_continued:
            self._commit(known, generation, changed)
        if not known.common.is_continued:
            _log.warning("Table %s: %s; generation %s begins", self.stored.name, known.common, generation)
        return StoredRange(
            manifests=tuple(changed.get(manifest.version, manifest) for manifest in found),
            common=known.common,
            written=tuple(new),
            current=_current_now(known.versions.current, known.common, new.values()),
            findings=findings,
        )

    def _known(self, wanted: Sequence[int], listing: LogListing | None, common: CommonVersion | None) -> _StoredBefore:
        versions, log = self.stored.stored_versions(), self._table_log
        current = versions.current
        if listing is None or not (listing.reaches_back(wanted[0]) and listing.has_version(wanted[-1])):
            listing = log.builder.list_versions(min([wanted[0], *(name.version for name in current[-1:])]))
        useful = {*wanted, *(version - 1 for version in wanted)}
        held = self.stored.read_sound_manifests([name for name in current if name.version in useful])
        if common is None or common.current != tuple(name.version for name in current):
            common = find_common_version(self.stored, versions, log, listing, held)
        manifests = self._complete(held, common, listing)
        return _StoredBefore(versions=versions, listing=listing, common=common, manifests=manifests)

    def _known_after(self, error: CorruptLogError, known: _StoredBefore, wanted: Sequence[int]) -> _StoredBefore:
        """Return what to write the versions from instead, after an error. Errors: the given one; LogChangedError."""
        now = self._check_unchanged(known.listing)
        if is_cleaned_up(error.path, known.listing, now):
            return self._known(wanted, None, None)
        readable = without_damaged(self._table_log.store, known.listing, wanted[0], wanted[-1])
        if readable.commits == known.listing.commits:
            raise error
        _log.warning("Table %s: %s; its checkpoint replaces it", self.stored.name, error)
        return self._known(wanted, readable, known.common)

    def _write_missing(
        self, known: _StoredBefore, wanted: Sequence[int], findings: CommitFindings
    ) -> tuple[str, dict[int, VersionManifest]]:
        """Write the data of missing versions. Return their generation, and the manifests by version, not committed."""
        missing = [version for version in wanted if version not in known.manifests]
        generation, loaded = self._generation(known, missing)
        new = dict[int, VersionManifest]()
        for start, end in contiguous_runs(missing):
            writer = self._range_writer(generation, self._table_log.range(start, end, known.listing), findings)
            before = {**known.manifests, **new}.get(start - 1)
            new |= {manifest.version: manifest for manifest in _write_run(writer, start, end, before, loaded)}
        return generation, new

    def _generation(self, known: _StoredBefore, missing: Sequence[int]) -> tuple[str, LoadedLog | None]:
        """Return the generation to write to. If its name needs the log of the first version, return that log too."""
        newest = known.versions.current_generation
        if known.common.is_continued and newest is not None:
            return newest, None
        if known.common.version is not None:
            return known.versions.forked_generation(known.common.version), None
        first = missing[0]
        loaded = self._table_log.range(first, first, known.listing).load(first)
        table_id = "" if loaded.non_file.metadata is None else loaded.non_file.metadata.id
        return known.versions.next_generation(table_id), loaded

    def _commit(self, known: _StoredBefore, generation: str, manifests: Mapping[int, VersionManifest]) -> None:
        """Commit versions to the store, after checking that neither the log nor the files of the versions changed."""
        self._check_unchanged(known.listing)
        self._check_store(known.versions, generation, manifests.values())
        if generation not in known.versions.generations and fork_of(generation) is not None:
            self.stored.begin_fork(generation)
        self.stored.commit(manifests[version] for version in sorted(manifests))

    def _check_store(self, versions: StoredVersions, generation: str, manifests: Collection[VersionManifest]) -> None:
        current = self.stored.stored_versions().current_generation
        if current not in (versions.current_generation, generation):
            raise self._store_changed(f"generation {current} began")
        for url, problem in self.stored.missing_files(manifests).items():
            raise self._store_changed(f"{url}: {problem}")

    def _store_changed(self, reason: str) -> StoreChangedError:
        return StoreChangedError(store=self.stored.root, table=self.stored.name, reason=reason)

    def _check_unchanged(self, listing: LogListing) -> LogListing:
        """Return a new listing of the log. Errors: LogChangedError."""
        now = list_again(self._table_log.store, listing)
        check_unchanged(listing, now, [file for checkpoint in listing.checkpoints for file in checkpoint.files])
        return now

    def _range_writer(self, generation: str, log_range: LogRange, findings: CommitFindings) -> RangeWriter:
        spark_rows = self._spark_rows(generation)
        folder = spark_rows.parquet.folder
        return RangeWriter(
            stored=self.stored,
            generation=generation,
            context=self.log.context,
            log_range=log_range,
            spark_rows=spark_rows,
            driver_rows=DriverRows(storage=self.parquet.storage, folder=folder, log_path=self.log.path),
            findings=findings,
            policy=self.policy,
            progress=self.progress,
        )

    def _complete(
        self, held: Sequence[VersionManifest], common: CommonVersion, listing: LogListing
    ) -> dict[int, VersionManifest]:
        """Return by version the manifests of the stored versions that the log has and whose files all exist."""
        limit = -1 if common.version is None else common.version
        manifests = [manifest for manifest in held if manifest.version <= limit]
        broken = self.stored.missing_files(manifests)
        for url, problem in broken.items():
            _log.warning("Versions of table %s count as not stored: %s: %s", self.stored.name, url, problem)
        store = self._table_log.store
        return {
            manifest.version: manifest
            for manifest in manifests
            if broken.keys().isdisjoint(self.stored.file_urls(manifest))
            and is_version_of(manifest, store, listing, verify=False) is not False
        }

    def _with_plain_parquet(
        self, manifests: Sequence[VersionManifest], listing: LogListing
    ) -> dict[int, VersionManifest]:
        """Write the missing plain Parquet of versions. Return the changed manifests by version, not committed."""
        missing = [manifest for manifest in manifests if manifest.plain_parquet is None]
        if missing:
            first, last = missing[0].version, missing[-1].version
            self.progress(f"Writing the tables of versions {first} to {last}", 0, len(missing))
        written: dict[int, VersionManifest] = {}
        for generation, run in groupby(missing, key=lambda manifest: manifest.generation):
            rows, check = self._spark_rows(generation), partial(self._check_unchanged, listing)
            written |= {manifest.version: manifest for manifest in write_plain_parquet(rows, list(run), check)}
        return written

    def _spark_rows(self, generation: str) -> SparkRows:
        parquet = self.parquet.below(self.stored.generation_folder(generation))
        return SparkRows(parquet=parquet, log_path=self.log.path)


def _write_run(
    writer: RangeWriter, first: int, last: int, previous: VersionManifest | None, loaded: LoadedLog | None
) -> Iterator[VersionManifest]:
    """Write consecutive versions, and yield their manifests.

    A version is written as changes if the previous version has the same generation and keys and the commit exists,
    otherwise as a base.
    loaded: the log of a version, if read already.
    """
    version = first
    while version <= last:
        if previous is None or not writer.can_follow(previous) or not writer.log_range.has_commit(version):
            previous = writer.write_first(version, loaded if loaded and loaded.version == version else None)
            yield previous
        else:
            end = next((v for v in range(version, last + 1) if not writer.log_range.has_commit(v)), last + 1) - 1
            written = writer.write_after(previous, end)
            yield from written
            previous = written[-1]
        version = previous.version + 1


def _current_now(
    before: Sequence[ManifestName], common: CommonVersion, written: Iterable[VersionManifest]
) -> dict[int, ManifestName]:
    """Return the current manifests by version, ascending.

    After a fork, only the common versions of the earlier ones remain.
    """
    last = common.latest_stored if common.is_continued else common.version
    kept = [name for name in before if last is not None and name.version <= last]
    names = {name.version: name for name in (*kept, *map(name_of, written))}
    return {version: names[version] for version in sorted(names)}
