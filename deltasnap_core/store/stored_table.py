"""The manifests and shared documents of one table in a store: found, read, committed. No Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltasnap_core.errors import CorruptStoreError, StoredVersionNotFoundError
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.layout import MANIFESTS, ManifestName, check_table_name, document_path
from deltasnap_core.store.manifest import VersionManifest
from deltasnap_core.store.shared_documents import JsonObject, decode, digest, encode
from deltasnap_core.store.version_documents import computed_state_of, log_segment_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """What is stored of one table below the root of a store; nothing is kept between two calls.

    Errors of what reads: CorruptStoreError naming the file that is missing or not what was written.
    """

    files: WritableFiles
    root: str
    name: str

    def __post_init__(self) -> None:
        check_table_name(self.name)

    @property
    def folder(self) -> str:
        """URL of the folder with everything of the table."""
        return join_url(self.root, self.name)

    def generation_folder(self, generation: str) -> str:
        """URL of the folder with the data of a generation."""
        return join_url(self.folder, generation)

    def manifest_url(self, name: ManifestName) -> str:
        """URL of a manifest."""
        return join_url(self.folder, f"{MANIFESTS}/{name}")

    def manifest_names(self) -> tuple[ManifestName, ...]:
        """Give every version of every generation, ascending, by one listing."""
        listed = self.files.list_folder(join_url(self.folder, MANIFESTS))
        parsed = (ManifestName.parse(status.name) for status in listed)
        return tuple(sorted(name for name in parsed if name is not None))

    def current_names(self) -> tuple[ManifestName, ...]:
        """Give the versions of the current generation, ascending, by one listing."""
        names = self.manifest_names()
        return tuple(name for name in names if name.generation == names[-1].generation)

    def current_manifest(self, version: int) -> VersionManifest:
        """Give the manifest of a version of the current generation.

        Errors: StoredVersionNotFoundError; CorruptStoreError.
        """
        for name in self.current_names():
            if name.version == version:
                return self.read_manifests([name])[0]
        raise StoredVersionNotFoundError(store=self.root, table=self.name, version=version)

    def read_manifests(self, names: Sequence[ManifestName]) -> tuple[VersionManifest, ...]:
        """Read manifests, in order.

        Errors: StoredVersionNotFoundError where one was removed meanwhile; CorruptStoreError.
        """
        try:
            contents = self.files.read_many([self.manifest_url(name) for name in names])
        except FileNotFoundError as error:
            raise StoredVersionNotFoundError(
                store=self.root, table=self.name, version=names[0].version if len(names) == 1 else None
            ) from error
        return tuple(self._parsed(name, content) for name, content in zip(names, contents, strict=True))

    def read_sound_manifests(self, names: Iterable[ManifestName]) -> tuple[VersionManifest, ...]:
        """Read manifests, in order, leaving out with a warning those that are not what was written, or just went."""
        found: list[VersionManifest] = []
        for name in names:
            try:
                found += self.read_manifests([name])
            except (CorruptStoreError, StoredVersionNotFoundError) as error:
                _log.warning("Version %d of table %s counts as not stored: %s", name.version, self.name, error)
        return tuple(found)

    def read_documents(self, manifests: Iterable[VersionManifest]) -> dict[str, JsonObject]:
        """Read the shared documents that manifests of one generation need, by digest."""
        urls = {
            name: join_url(self.generation_folder(manifest.generation), document_path(name))
            for manifest in manifests
            for name in manifest.documents
        }
        try:
            contents = self.files.read_many(list(urls.values()))
        except FileNotFoundError as error:
            missing = next(url for url in urls.values() if self.files.status(url) is None)
            raise CorruptStoreError(path=missing, reason="expected a shared document, found none") from error
        return {name: _document(urls[name], name, content) for name, content in zip(urls, contents, strict=True)}

    def computed_state(self, manifest: VersionManifest) -> SnapshotState:
        """Give the computed state of a stored version."""
        try:
            return computed_state_of(manifest, self.read_documents([manifest]))
        except (KeyError, TypeError, ValueError) as error:
            raise self._corrupt(manifest, error) from error

    def log_segment(self, manifest: VersionManifest) -> LogSegment:
        """Give the log segment of a stored version."""
        try:
            return log_segment_of(manifest, self.read_documents([manifest]))
        except (KeyError, TypeError, ValueError) as error:
            raise self._corrupt(manifest, error) from error

    def files_of(self, manifest: VersionManifest) -> dict[str, int | None]:
        """Give the URL of every file that a version consists of, and its bytes (None: not recorded)."""
        folder = self.generation_folder(manifest.generation)
        data = {join_url(folder, file.path): file.size for file in manifest.data_files}
        return {**data, **{join_url(folder, document_path(name)): None for name in manifest.documents}}

    def missing_files(self, manifests: Iterable[VersionManifest]) -> dict[str, str]:
        """Give the URL of each file of the versions that is not as it was written, and what is wrong with it."""
        expected: dict[str, int | None] = {}
        for manifest in manifests:
            expected.update(self.files_of(manifest))
        problems: dict[str, str] = {}
        for (url, size), status in zip(expected.items(), self.files.statuses(list(expected)), strict=True):
            if status is None:
                problems[url] = "expected a file, found none"
            elif size is not None and status.size != size:
                problems[url] = f"expected {size} bytes, found {status.size}"
        return problems

    def check_files(self, manifest: VersionManifest) -> None:
        """Check that every file of a version is as it was written.

        Errors: CorruptStoreError naming the first that is not.
        """
        for url, problem in self.missing_files([manifest]).items():
            raise CorruptStoreError(path=url, reason=problem)

    def write_documents(self, generation: str, documents: Mapping[str, JsonObject]) -> None:
        """Write shared documents, by digest: before the manifests that name them."""
        folder = self.generation_folder(generation)
        self.files.write_many(
            {join_url(folder, document_path(name)): encode(document) for name, document in documents.items()}
        )

    def commit(self, manifests: Iterable[VersionManifest]) -> None:
        """Make versions part of the store, or replace them: each in one piece, after everything that they name."""
        self.files.write_many({self.manifest_url(name_of(manifest)): manifest.to_bytes() for manifest in manifests})

    def _parsed(self, name: ManifestName, content: bytes) -> VersionManifest:
        url = self.manifest_url(name)
        try:
            manifest = VersionManifest.from_bytes(content)
        except ValueError as error:
            raise CorruptStoreError(path=url, reason=str(error)) from error
        if (manifest.table, name_of(manifest)) != (self.name, name):
            raise CorruptStoreError(
                path=url,
                reason=f"expected the manifest of {name} of table {self.name}, "
                f"found that of {name_of(manifest)} of table {manifest.table}",
            )
        return manifest

    def _corrupt(self, manifest: VersionManifest, error: Exception) -> CorruptStoreError:
        return CorruptStoreError(path=self.manifest_url(name_of(manifest)), reason=f"{type(error).__name__}: {error}")


def name_of(manifest: VersionManifest) -> ManifestName:
    """Give the name of the file that a manifest belongs in."""
    return ManifestName(generation=manifest.generation, version=manifest.version)


def _document(url: str, name: str, content: bytes) -> JsonObject:
    if digest(content) != name:
        raise CorruptStoreError(path=url, reason="expected a shared document, found other content than its name says")
    return decode(content)
