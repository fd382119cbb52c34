"""Facts about commits that manifests store: identity and summary. Each commit is read once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.commits.commit_summary import CommitSummary, summaries
from deltasnap_core.log.commits.data_changes import UNKNOWN_SCHEMA
from deltasnap_core.log.history.commit_timestamps import strictly_increasing
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_identity import CommitIdentity, VersionIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """By version: the digest of the commit's bytes, its commitInfo, its summary."""

    digests: Mapping[int, str]
    infos: Mapping[int, CommitInfo | None]
    summaries: Mapping[int, CommitSummary]

    @classmethod
    def of(cls, batch: CommitBatch, schema_before: object = UNKNOWN_SCHEMA) -> CommitFacts:
        """Return the facts about the commits of a batch. Errors: CorruptLogError naming file and line.

        schema_before: see `data_changes`.
        """
        return cls(digests=batch.digests, infos=batch.commit_infos(), summaries=summaries(batch, schema_before))

    def added_to(
        self, manifest: VersionManifest, previous: VersionIdentity | None, segment: LogSegment
    ) -> VersionManifest:
        """Return a manifest with identity and summary added. previous: the identity of the previous version."""
        commit, version = segment.last_commit_file, manifest.version
        info = self.infos.get(version)
        identity = None
        if commit is not None:
            identity = CommitIdentity(
                size=commit.size,
                modification_time=commit.modification_time,
                in_commit_timestamp=None if info is None else info.in_commit_timestamp,
                digest=self.digests[version],
            )
        files = {file.name: (file.size, file.modification_time) for file in segment.checkpoint_provider.files}
        return replace(
            manifest,
            identity=VersionIdentity.following(previous, identity, files),
            commit=self.summaries.get(version),
        )


def commit_times(manifests: Iterable[VersionManifest]) -> dict[int, int]:
    """Return the times (ms) of stored versions, as the history of their log has them.

    Modification times are made strictly increasing. In-commit timestamps are returned as they are.
    """
    manifests = list(manifests)
    own = {manifest.version: manifest.timestamp for manifest in manifests if _has_own_time(manifest)}
    others = {manifest.version: manifest.timestamp for manifest in manifests if manifest.version not in own}
    return strictly_increasing(others) | own


def _has_own_time(manifest: VersionManifest) -> bool:
    commit = None if manifest.identity is None else manifest.identity.commit
    return commit is not None and commit.in_commit_timestamp == manifest.timestamp
