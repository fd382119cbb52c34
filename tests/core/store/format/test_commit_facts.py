"""Facts about the commits of stored versions."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.format.version_identity import CommitIdentity, VersionIdentity
from tests.core.store.format.version_documents_builders import manifest_of


def test_only_modification_times_are_made_increasing() -> None:
    """In-commit timestamps are returned as they are."""

    def manifest(version: int, timestamp: int, own: int | None = None) -> object:
        commit = CommitIdentity(size=1, modification_time=timestamp, in_commit_timestamp=own, digest="")
        return replace(manifest_of(version), timestamp=timestamp, identity=VersionIdentity(commit=commit, chain=""))

    times = {0: (50, None), 1: (20, 7), 2: (30, None), 3: (40, 40), 4: (40, 40), 5: (10, 10)}
    manifests = [manifest(version, *time) for version, time in times.items()]
    manifests += [replace(manifest_of(6), timestamp=53), replace(manifest_of(7), timestamp=60, identity=None)]
    assert commit_times(manifests) == {0: 50, 1: 51, 2: 52, 6: 53, 7: 60, 3: 40, 4: 40, 5: 10}  # type: ignore[arg-type]
