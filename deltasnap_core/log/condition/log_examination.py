"""The condition of a log: reads its newest checkpoint and the commits after it, and finds the loadable versions."""

from __future__ import annotations

from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.hint_faults import hint_faults
from deltasnap_core.log.condition.loadable_versions import (
    SOUND,
    known_states,
    loadable_versions,
    replaced_commits,
)
from deltasnap_core.log.condition.log_faults import (
    ambiguous_commit_faults,
    checkpoint_faults,
    checksum_faults,
    commit_faults,
    empty_commit_faults,
    enablement_faults,
    negative_number_faults,
    partition_column_faults,
    protocol_faults,
    timestamp_faults,
    unpublished_commit_faults,
)
from deltasnap_core.log.condition.table_condition import TableCondition, joined
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.readable_schema import Place
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted


def condition_of(
    builder: LogSegmentBuilder, files: ExaminedFiles, first: int | None, known: CommitFindings, now_ms: int
) -> TableCondition:
    """Return the condition of a table, from the files of a whole listed log. first, known: see `TableLog.condition`."""
    table, listing = table_path(builder.log_path), files.listing
    start = files.start
    first = start + 1 if first is None else _first_to_read(files, start, first, known.sound)
    commits = files.read_commits_from(min(first, start + 1), known)
    loadable, unloadable = loadable_versions(files, commits.broken, first)
    states = [*known_states(files, commits, VersionRanges.of(loadable))]
    newest = states[-1].actions if states else SOUND
    unreadable = [
        *protocol_faults(table, states),
        *timestamp_faults(listing, commits, states, now_ms),
    ]
    faults = [
        *commit_faults(table, [*unloadable, *replaced_commits(files, commits.broken, loadable)]),
        *unreadable,
        *empty_commit_faults(table, listing, commits),
        *ambiguous_commit_faults(table, commits),
        *negative_number_faults(table, files, commits),
        *enablement_faults(table, newest),
        *unpublished_commit_faults(builder, files.latest, newest),
        *(partition_column_faults(table, newest.metadata) if newest.metadata else ()),
        *(checksum_faults(files, commits, states[-1]) if states and files.read_pages and not known.sound else ()),
        *checkpoint_faults(files, VersionRanges.of(loadable)),
        *hint_faults(builder, files),
    ]
    lost = joined(fault.versions for fault in unreadable)
    found = TableCondition(
        table=redacted(table),
        latest=files.latest,
        loadable=VersionRanges.of([version for version in loadable if version not in lost]),
        faults=tuple(sorted(faults, key=lambda fault: fault.mark != "error")),
        commits_read=VersionRanges.of(sorted(commits.versions)),
        unread=VersionRanges.of(listing.commits.keys() - commits.versions),
        checkpoints_read=tuple(files.names),
        pages_read=files.read_pages,
        checkpoint=listing.newest_checkpoint if files.read_pages else None,
        counted=files.counted,
    )
    metadata = None if newest.metadata is SOUND.metadata else newest.metadata  # None: not known here
    return found.with_schema_of(metadata, newest.protocol, _place_of_metadata(files, commits, newest))


def _place_of_metadata(files: ExaminedFiles, commits: CommitFindings, state: NonFileActions) -> Place | None:
    """Return the commit or checkpoint with the metadata of a state; None: it was not read."""
    for version, actions in commits.actions.items():
        if any(action is state.metadata for action in actions):
            return files.listing.commits[version].path, None
    for checkpoint in files.listing.checkpoints:
        known = files.states.get(checkpoint.version)
        if known is not None and known.metadata is state.metadata:
            return checkpoint.files[0].path, None
    return None


def _first_to_read(files: ExaminedFiles, start: int, first: int, sound: VersionRanges) -> int:
    """Return the first version whose commit is read: `first`, or an earlier one that it needs.

    start: `ExaminedFiles.start`.
    """
    if not 0 < first <= start or first - 1 in sound:
        return first
    before = files.newest_sound_checkpoint(first)
    return 0 if before is None else min(before.version + 1, first)
