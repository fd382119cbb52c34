"""Examines a log: reads the newest checkpoint and the commits after it, and finds which versions can be loaded."""

from __future__ import annotations

from deltasnap_core.errors import DeltaTableNotFoundError, StorageError
from deltasnap_core.log.condition.access_faults import no_table, storage_fault
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.hint_faults import hint_faults
from deltasnap_core.log.condition.loadable_versions import (
    SOUND,
    SoundVersion,
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
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.readable_schema import Place
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted
from deltasnap_core.storage.log_store import LogStore


def examine_log(
    store: LogStore,
    builder: LogSegmentBuilder,
    *,
    listing: LogListing | None,
    first: int | None,
    sound: VersionRanges,
    newest_sound: SoundVersion | None,
    read_pages: bool,
    max_page_bytes: int | None,
    findings: CommitFindings | None,
    now_ms: int,
) -> TableCondition:
    """Return the condition of a table, as `TableLog.condition`. Problems become faults, not errors.

    If a file of the listing can no longer be read and has changed since, or the newest checkpoint was replaced, the log
    is listed and examined again, at most twice. Then the pages of another checkpoint are read in any case.
    """
    table = table_path(builder.log_path)
    try:
        listing = builder.list_versions(0) if listing is None else listing
        if listing.latest_version is None:
            raise DeltaTableNotFoundError(path=table)
        for is_last in (False, False, True):
            files = ExaminedFiles(store, listing, read_pages=read_pages, max_page_bytes=max_page_bytes)
            found = _condition(builder, files, first, sound, newest_sound, findings or CommitFindings(), now_ms)
            if is_last or not files.is_suspect:
                break
            # A writer may clean up the log, or replace a checkpoint, while it is read.
            before, listing = listing, builder.list_versions(0)
            if not files.has_outdated(listing):
                break
            # The caller may know the pages of the checkpoint in its listing, but not those of another one.
            read_pages = read_pages or listing.newest_checkpoint != before.newest_checkpoint
        return found
    except DeltaTableNotFoundError:
        return TableCondition(table=redacted(table), faults=(no_table(store, table),))
    except StorageError as error:
        return TableCondition(table=redacted(table), faults=(storage_fault(error),))


def _condition(
    builder: LogSegmentBuilder,
    files: ExaminedFiles,
    first: int | None,
    sound: VersionRanges,
    newest_sound: SoundVersion | None,
    findings: CommitFindings,
    now_ms: int,
) -> TableCondition:
    """Return the condition of a listed log. The others: as for `examine_log`."""
    table, listing = table_path(builder.log_path), files.listing
    start = files.start
    first = start + 1 if first is None else _first_to_read(files, start, first, sound)
    commits = files.read_commits_from(min(first, start + 1), sound, findings)
    loadable, unloadable = loadable_versions(files, commits.broken, first)
    states = [*known_states(files, commits, sound, VersionRanges.of(loadable), newest_sound)]
    newest = states[-1].actions if states else SOUND
    unreadable = [
        *protocol_faults(table, states),
        *timestamp_faults(listing, commits, states, sound, newest_sound, now_ms),
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
        *(checksum_faults(files, commits, states[-1]) if states and files.read_pages and not sound else ()),
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
