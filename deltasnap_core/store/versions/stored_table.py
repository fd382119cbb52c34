"""Finds, reads and commits the manifests and shared documents of one table in a store. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from deltasnap_core.errors import CorruptStoreError, StoredVersionNotFoundError, UnsupportedStoreError
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import check_versions
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.redaction import logger_of
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.layout import (
    LAST_POLL,
    MANIFESTS,
    ManifestName,
    check_table_name,
    document_path,
    fork_marker,
    fork_of,
    parse_fork_marker,
    parse_pruned_marker,
    pruned_marker,
)
from deltasnap_core.store.format.manifest import MANIFEST_FORMAT, LaterFormatError, VersionManifest
from deltasnap_core.store.format.shared_documents import JsonObject, decode_document, document_digest, encode_document
from deltasnap_core.store.format.version_documents import computed_state_of, log_segment_of
from deltasnap_core.store.versions.stored_versions import StoredVersions

T = TypeVar("T")

_log = logger_of(__name__)
_IN_ORDER = attrgetter("generation", "version")  # the order of a ManifestName, many times as fast
_RECENT = 30
_ADVICE_FOR_LOST_FILES = (
    "Restore the file from a backup, or materialize the versions that use it again, if the log still has them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """The stored data of one table below the root of a store. It caches nothing.

    Errors of all methods that read: CorruptStoreError naming the file that is missing or damaged;
    UnsupportedStoreError naming a manifest of a later release, which is never skipped or replaced.
    """

    storage: WritableFiles
    root: str
    name: str

    def __post_init__(self) -> None:
        check_table_name(self.name)

    @property
    def folder(self) -> str:
        """URL of the folder with all data of the table."""
        return join_url(self.root, self.name)

    @property
    def poll_url(self) -> str:
        """URL of the document of the last poll of the table. It belongs to no version."""
        return join_url(self.folder, LAST_POLL)

    def generation_folder(self, generation: str) -> str:
        """Return the URL of the folder with the data of a generation."""
        return join_url(self.folder, generation)

    def manifest_url(self, name: ManifestName) -> str:
        """Return the URL of a manifest."""
        return join_url(self.folder, f"{MANIFESTS}/{name}")

    def fork_url(self, generation: str) -> str:
        """Return the URL of the marker of a forked generation."""
        return join_url(self.folder, f"{MANIFESTS}/{fork_marker(generation)}")

    def pruned_url(self, kept: ManifestName) -> str:
        """Return the URL of the marker that versions before one were pruned."""
        return join_url(self.folder, f"{MANIFESTS}/{pruned_marker(kept)}")

    def stored_versions(self) -> StoredVersions:
        """Return the names of all manifests and forks, from one listing."""
        manifests: list[ManifestName] = []
        markers: list[str] = []
        for name in self.storage.names(join_url(self.folder, MANIFESTS)):
            if (manifest := ManifestName.parse(name)) is None:
                markers.append(name)
            else:
                manifests.append(manifest)
        forks = map(parse_fork_marker, markers)
        kept = map(parse_pruned_marker, markers)
        return StoredVersions(
            manifests=tuple(sorted(manifests, key=_IN_ORDER)),
            forks=tuple(sorted(generation for generation in forks if generation is not None)),
            kept=tuple(name for name in kept if name is not None),
        )

    def current_names(self) -> dict[int, ManifestName]:
        """Return the current manifests by version, ascending, from one listing."""
        return {name.version: name for name in self.stored_versions().current}

    def manifests(
        self, versions: Collection[int] | None = None, current: Mapping[int, ManifestName] | None = None
    ) -> dict[int, VersionManifest]:
        """Return the manifests of versions (None: all current ones), ascending.

        current: the result of `current_names`; None: list the store. Errors: ValueError for an invalid version;
                 StoredVersionNotFoundError; CorruptStoreError.
        """
        if not isinstance(versions, range | None):
            check_versions(*versions)
        current = self.current_names() if current is None else current
        wanted = sorted(current if versions is None else set(versions))
        for version in wanted:
            if version not in current:
                raise StoredVersionNotFoundError(store=self.root, table=self.name, version=version)
        return {each.version: each for each in self.read_manifests([current[version] for version in wanted])}

    def read_manifests(self, names: Sequence[ManifestName]) -> tuple[VersionManifest, ...]:
        """Return manifests, in the order given.

        Errors: StoredVersionNotFoundError if one was removed in the meantime; CorruptStoreError.
        """
        try:
            contents = self.storage.read_many([self.manifest_url(name) for name in names])
        except FileNotFoundError as error:
            raise StoredVersionNotFoundError(
                store=self.root, table=self.name, version=names[0].version if len(names) == 1 else None
            ) from error
        return tuple(self._parsed(name, content) for name, content in zip(names, contents, strict=True))

    def read_sound_manifests(self, names: Iterable[ManifestName]) -> tuple[VersionManifest, ...]:
        """Return manifests, in the order given. Skips, with a warning, those that are damaged or were just removed."""
        names = [*names]
        with suppress(CorruptStoreError, StoredVersionNotFoundError):
            return self.read_manifests(names)
        found: list[VersionManifest] = []
        for name in names:  # one by one: the others are sound
            try:
                found += self.read_manifests([name])
            except (CorruptStoreError, StoredVersionNotFoundError) as error:
                _log.warning("Version %d of table %s counts as not stored: %s", name.version, self.name, error)
        return tuple(found)

    def read_documents(
        self, manifests: Iterable[VersionManifest], parts: Collection[str] | None = None
    ) -> dict[str, JsonObject]:
        """Return the shared documents that manifests need, by digest. parts: only for these parts; None: for all."""
        urls = {
            part.shared: join_url(self.generation_folder(manifest.generation), document_path(part.shared))
            for manifest in manifests
            for name, part in manifest.parts.items()
            if part.shared is not None and (parts is None or name in parts)
        }
        try:
            contents = self.storage.read_many(list(urls.values()))
        except FileNotFoundError as error:
            missing = next(url for url in urls.values() if self.storage.status(url) is None)
            raise CorruptStoreError(path=missing, reason="expected a shared document, found none") from error
        return {name: _document(urls[name], name, content) for name, content in zip(urls, contents, strict=True)}

    def computed_states(self, manifests: Collection[VersionManifest]) -> dict[int, SnapshotState]:
        """Return the computed states of stored versions, by version. Shared documents are read once."""
        return self._values(manifests, computed_state_of)

    def log_segments(self, manifests: Collection[VersionManifest]) -> dict[int, LogSegment]:
        """Return the log segments of stored versions, by version. Shared documents are read once."""
        return self._values(manifests, log_segment_of)

    def _values(
        self,
        manifests: Collection[VersionManifest],
        value_of: Callable[[VersionManifest, Mapping[str, JsonObject]], T],
    ) -> dict[int, T]:
        documents = self.read_documents(manifests)
        found: dict[int, T] = {}
        for manifest in manifests:
            try:
                found[manifest.version] = value_of(manifest, documents)
            except (KeyError, TypeError, ValueError) as error:
                reason = f"{type(error).__name__}: {error}"
                raise corrupt_manifest(self.manifest_url(name_of(manifest)), reason) from error
        return found

    def file_urls(self, manifest: VersionManifest) -> dict[str, int | None]:
        """Return the URL of every file of a version, with its bytes (None: not recorded, or they may change).

        Another run may replace a file of plain Parquet: the same rows, in other bytes.
        """
        folder = self.generation_folder(manifest.generation)
        data: dict[str, int | None] = {join_url(folder, file.path): file.size for file in manifest.data_files}
        changing = [*map(document_path, manifest.documents), *(file.path for file in manifest.plain_parquet_files)]
        return data | {join_url(folder, path): None for path in changing}

    def missing_files(self, manifests: Iterable[VersionManifest]) -> dict[str, str]:
        """Return the URL of each file of the versions that is missing or has another size, with the problem."""
        expected: dict[str, int | None] = {}
        for manifest in manifests:
            expected.update(self.file_urls(manifest))
        problems: dict[str, str] = {}
        for (url, size), status in zip(expected.items(), self.storage.statuses(list(expected)), strict=True):
            if status is None:
                problems[url] = "expected a file, found none"
            elif size is not None and status.size != size:
                problems[url] = f"expected {size} bytes, found {status.size}"
        return problems

    def incomplete_versions(self, names: Sequence[ManifestName]) -> dict[int, str]:
        """Return the versions that lack a file or have one of another size, ascending, each with its first problem.

        Versions share files. So if the last _RECENT ones are complete, no other manifest is read.
        names: of the manifests, ascending. Damaged manifests are ignored, with a warning.
        """
        if not self.missing_files(self.read_sound_manifests(names[-_RECENT:])):
            return {}
        manifests = self.read_sound_manifests(names)
        problems = self.missing_files(manifests)
        found = {m.version: [url for url in self.file_urls(m) if url in problems] for m in manifests}
        return {version: f"{urls[0]}: {problems[urls[0]]}" for version, urls in found.items() if urls}

    def check_files(self, manifests: Iterable[VersionManifest]) -> None:
        """Raise CorruptStoreError, naming the file, if a file of the versions is missing or has another size."""
        for url, problem in self.missing_files(manifests).items():
            raise CorruptStoreError(path=url, reason=problem, advice=_ADVICE_FOR_LOST_FILES)

    def write_documents(self, generation: str, documents: Mapping[str, JsonObject]) -> None:
        """Write shared documents, by digest. Call it before writing the manifests that name them."""
        folder = self.generation_folder(generation)
        self.storage.write_many(
            {join_url(folder, document_path(name)): encode_document(document) for name, document in documents.items()}
        )

    def begin_fork(self, generation: str) -> None:
        """Make a forked generation the current one. Only the shared versions of earlier generations stay current."""
        fork = fork_of(generation)
        content = {"generation": generation, "parent": fork and fork.parent, "version": fork and fork.version}
        self.storage.write(self.fork_url(generation), encode_document(content))

    def mark_pruned(self, kept: ManifestName) -> None:
        """Record that the versions before one are pruned, so that they do not count as lost."""
        content = {"generation": kept.generation, "version": kept.version}
        self.storage.write(self.pruned_url(kept), encode_document(content))

    def commit(self, manifests: Iterable[VersionManifest]) -> None:
        """Write manifests, which adds versions to the store or replaces them.

        All files that they name must exist already.
        """
        self.storage.write_many({self.manifest_url(name_of(manifest)): manifest.to_bytes() for manifest in manifests})

    def _parsed(self, name: ManifestName, content: bytes) -> VersionManifest:
        url = self.manifest_url(name)
        try:
            manifest = VersionManifest.from_bytes(content)
        except LaterFormatError as error:
            raise UnsupportedStoreError(path=url, found=error.found, supported=MANIFEST_FORMAT) from error
        except ValueError as error:
            raise corrupt_manifest(url, str(error)) from error
        if (manifest.table, name_of(manifest)) != (self.name, name):
            raise corrupt_manifest(
                url,
                f"expected the manifest of {name} of table {self.name}, "
                f"found that of {name_of(manifest)} of table {manifest.table}",
            )
        return manifest


def corrupt_manifest(url: str, reason: str) -> CorruptStoreError:
    """Return the error of a damaged manifest. A refresh alone does not repair it: its version counts as stored."""
    advice = "Move the file away and refresh the table: its version is stored again, if the log still has it."
    return CorruptStoreError(path=url, reason=reason, advice=advice)


def name_of(manifest: VersionManifest) -> ManifestName:
    """Return the file name of a manifest."""
    return ManifestName(generation=manifest.generation, version=manifest.version)


def _document(url: str, name: str, content: bytes) -> JsonObject:
    if document_digest(content) != name:
        raise CorruptStoreError(
            path=url, reason="expected a shared document, found content that does not match its name"
        )
    return decode_document(content)
