"""Reads the protocol and metadata of a version without a replay, from the newest commit backwards."""

from __future__ import annotations

from deltasnap_core.log.checkpoints.checkpoint_contents import open_checkpoint
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH
from deltasnap_core.log.commits.commit_reader import COMMITS_AT_ONCE, read_commits
from deltasnap_core.log.listing.checkpoint_provider import EmptyCheckpointProvider
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.storage.log_store import LogStore


def newest_protocol_and_metadata(store: LogStore, segment: LogSegment) -> tuple[Protocol | None, Metadata | None]:
    """Return the newest protocol and metadata of a segment; None: the log has none.

    Reads commits from the newest on until both are found. Reads the checkpoint only if the commits do not contain both.
    Errors: CorruptLogError naming file and line.
    Source: PROTOCOL.md, Protocol Evolution; Change Metadata.
    """
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for end in range(len(segment.deltas), 0, -COMMITS_AT_ONCE):
        batch = read_commits(store, segment.deltas[max(0, end - COMMITS_AT_ONCE) : end])
        found = NonFileActions().advanced_by(batch)
        protocol, metadata = protocol or found.protocol, metadata or found.metadata
        if protocol is not None and metadata is not None:
            return protocol, metadata
    provider = segment.checkpoint_provider
    if isinstance(provider, EmptyCheckpointProvider):
        return protocol, metadata
    contents = open_checkpoint(store, provider, segment.log_path)
    found = load_non_file_actions(store, contents, EMPTY_BATCH)
    return protocol or found.protocol, metadata or found.metadata
