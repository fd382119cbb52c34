"""HeldVersions: the stored versions of a run, each read from the store once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deltasnap_assets.settings.config import Settings
from deltasnap_core import SnapshotState, SnapshotStore, VersionManifest
from deltasnap_core.support import EngineUse, ManifestName, SparkProvider, once


class HeldVersions:
    """Manifests and states by table name and version. Errors: StoredVersionNotFoundError, CorruptStoreError."""

    def __init__(self, settings: Settings, sessions: SparkProvider, engine: EngineUse) -> None:
        self._settings = settings
        self._engine: EngineUse = engine
        self._sessions = sessions
        self._current: dict[str, Mapping[int, ManifestName]] = {}
        self._manifests: dict[str, dict[int, VersionManifest]] = {}
        self._states: dict[str, dict[int, SnapshotState]] = {}

    @once
    def store(self) -> SnapshotStore:
        """The configured store."""
        settings = self._settings
        return SnapshotStore.open(self._sessions, settings.storage, settings.storage_options, engine=self._engine)

    def names(self, table: str) -> Mapping[int, ManifestName]:
        """Return the manifest names of the current stored versions, ascending. The store is listed once."""
        if table not in self._current:
            self._current[table] = self.store.table(table).current_names()
        return self._current[table]

    def not_held(self, table: str, versions: Sequence[int]) -> list[int]:
        """Return the versions whose manifests are not held."""
        held = self._manifests.get(table, {})
        return [version for version in versions if version not in held]

    def add(self, table: str, current: Mapping[int, ManifestName], manifests: Iterable[VersionManifest]) -> None:
        """Hold manifests that were just written. current: the names from now on."""
        self._current[table] = current
        self._manifests.setdefault(table, {}).update({manifest.version: manifest for manifest in manifests})

    def manifests(self, table: str, versions: Sequence[int]) -> dict[int, VersionManifest]:
        """Return the manifests of stored versions."""
        held = self._manifests.setdefault(table, {})
        if unread := self.not_held(table, versions):
            held.update(self.store.table(table).manifests(unread, self.names(table)))
        return {version: held[version] for version in versions}

    def states(self, table: str, versions: Sequence[int]) -> dict[int, SnapshotState]:
        """Return the computed states of stored versions."""
        held = self._states.setdefault(table, {})
        if missing := [version for version in versions if version not in held]:
            manifests = self.manifests(table, missing)
            held.update(self.store.table(table).computed_states(manifests.values()))
        return {version: held[version] for version in versions}
