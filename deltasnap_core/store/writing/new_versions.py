"""Reads the commits after a stored version, and derives everything that needs no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.expiry_times import retention_at, times_of_expiry
from deltasnap_core.log.log_range import LogRange
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention, monotonic_retentions
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.store.format.commit_facts import CommitFacts
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.shared_documents import JsonObject
from deltasnap_core.store.format.version_documents import computed_state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersions:
    """The versions after a stored one (previous), before their file actions are applied.

    non_file, timestamps: by version, the non-file actions in force, and the time of the commit (ms).
    expiry_times:         by version, the time (ms) at which expiry is decided.
    known:                the computed state of the stored version.
    retentions:           of the stored version, and of each later one.
    """

    previous: VersionManifest
    batch: CommitBatch
    commits: CommitFacts
    non_file: Mapping[int, NonFileActions]
    timestamps: Mapping[int, int]
    expiry_times: Mapping[int, int]
    known: SnapshotState
    retentions: Mapping[int, Retention]


def read_new_versions(
    log_range: LogRange, previous: VersionManifest, documents: Mapping[str, JsonObject], last: int, now_ms: int
) -> NewVersions:
    """Return the versions after a stored one up to `last`. Reads each commit once.

    documents: the shared documents of the stored version, by digest.
    Errors: CorruptLogError; UnsupportedProtocolError, ActionNotFoundError naming the version; CorruptStoreError.
    """
    first = previous.version + 1
    batch = log_range.read_commits(first, last)
    known = computed_state_of(previous, documents)
    commits = CommitFacts.of(batch, None if known.metadata is None else known.metadata.schema_string)
    non_file = log_range.non_file_actions(NonFileActions.of(known), batch, first, last)
    timestamps = log_range.timestamps(non_file, commits.infos)
    expiry_times = times_of_expiry(timestamps, now_ms)
    retentions = {version: retention_at(actions, expiry_times[version]) for version, actions in non_file.items()}
    return NewVersions(
        previous=previous,
        batch=batch,
        commits=commits,
        non_file=non_file,
        timestamps=timestamps,
        expiry_times=expiry_times,
        known=known,
        retentions=monotonic_retentions({previous.version: previous.retention, **retentions}),
    )
