"""Which generation of a table a range of versions belongs to.

A table that is dropped and created again at the same path has other versions of the same numbers. Its metadata id
tells: a generation is all the versions that follow from one another in one log. (The id may change within a log, by
an overwrite of the schema with some writers; such a log is still one.)
"""

from __future__ import annotations

from collections.abc import Sequence

from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.replay.protocol_metadata import newest_protocol_and_metadata
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.store.layout import ManifestName, generation_name, generation_ordinal
from deltasnap_core.store.manifest import VersionManifest
from deltasnap_core.store.stored_table import StoredTable


def choose_generation(
    table: StoredTable, context: TableContext, names: Sequence[ManifestName], first: LogSegment, last: int
) -> str:
    """Give the current generation where the log goes on from it, else the name of a new one.

    names: every stored version, ascending. first, last: the range to be stored, its first version as the log has it.
    Errors: CorruptStoreError; CorruptLogError.
    """
    if not names:
        return generation_name(1, _table_id(context, first))
    current = [name for name in names if name.generation == names[-1].generation]
    at_or_before = [name for name in current if name.version <= last]
    nearest = at_or_before[-1] if at_or_before else current[0]
    (stored,) = table.read_manifests([nearest])
    if _is_commit_of(table, context, stored) or _id_in_log(context, stored.version, first) == stored.table_id:
        return stored.generation
    ordinal = generation_ordinal(stored.generation) or 0
    return generation_name(ordinal + 1, _table_id(context, first))


def is_of_table(table: StoredTable, context: TableContext, name: ManifestName) -> bool:
    """Whether the log is still of the table that a version was read from, though it may have lost the version."""
    (stored,) = table.read_manifests([name])
    try:
        latest = context.builder.build()
    except DeltaTableNotFoundError:
        return False
    return _is_commit_of(table, context, stored) or _id_in_log(context, stored.version, latest) == stored.table_id


def _is_commit_of(table: StoredTable, context: TableContext, stored: VersionManifest) -> bool:
    """Whether the commit of a stored version is in the log as it was: the cheapest of signs."""
    commit = table.log_segment(stored).last_commit_file
    return commit is not None and context.store.status(commit.path) == commit


def _id_in_log(context: TableContext, version: int, otherwise: LogSegment) -> str:
    """Give the table id that the log has at a version, or at another one where it has lost that."""
    try:
        segment = context.builder.build(version)
    except (DeltaTableNotFoundError, VersionNotFoundError, VersionGapError):
        segment = otherwise
    return _table_id(context, segment)


def _table_id(context: TableContext, segment: LogSegment) -> str:
    _, metadata = newest_protocol_and_metadata(context.store, segment)
    return "" if metadata is None else metadata.id
