"""Which generation of a table a range of versions belongs to.

A table that is dropped and created again at the same path has other versions of the same numbers. Its metadata id
tells: a generation is all the versions that follow from one another in one log. (The id may change within a log, by
an overwrite of the schema with some writers; such a log is still one.)
"""

from __future__ import annotations

from collections.abc import Sequence

from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.protocol_metadata import newest_protocol_and_metadata
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.store.layout import ManifestName, generation_name, generation_ordinal
from deltasnap_core.store.manifest import VersionManifest
from deltasnap_core.store.stored_table import StoredTable
from deltasnap_core.store.version_documents import last_commit_file_of


def generation_of_log(table: StoredTable, log: TableLog, names: Sequence[ManifestName], last: int) -> str | None:
    """Give the current generation where the log is still that of its table; None: a new one must begin.

    names: every stored version, ascending. last: the version that the log is needed up to.
    Errors: CorruptLogError.
    """
    if not names:
        return None
    current = [name for name in names if name.generation == names[-1].generation]
    nearest_first = sorted(current, key=lambda name: (name.version > last, abs(last - name.version)))
    stored = next((found for name in nearest_first for found in table.read_sound_manifests([name])), None)
    if stored is None:
        return None
    is_same = _is_commit_of(log, stored) or _id_in_log(log, stored.version) == stored.table_id
    return stored.generation if is_same else None


def new_generation(log: TableLog, names: Sequence[ManifestName], first: int) -> str:
    """Name the generation that begins with a version of the log, after those that are stored.

    Errors: those of finding and reading the version.
    """
    ordinal = generation_ordinal(names[-1].generation) if names else None
    return generation_name((ordinal or 0) + 1, _table_id(log, log.builder.build(first)) or "")


def _is_commit_of(log: TableLog, stored: VersionManifest) -> bool:
    """Whether the commit of a stored version is in the log as it was: the cheapest of signs."""
    commit = last_commit_file_of(stored) if stored.log_path == log.log_path else None
    return commit is not None and log.store.status(commit.path) == commit


def _id_in_log(log: TableLog, version: int) -> str | None:
    """Give the table id that the log has at a version, or at its latest one where it has lost that; None: no table."""
    try:
        return _table_id(log, log.builder.build(version))
    except (VersionNotFoundError, VersionGapError):
        return _table_id(log, log.builder.build())
    except DeltaTableNotFoundError:
        return None


def _table_id(log: TableLog, segment: LogSegment) -> str | None:
    _, metadata = newest_protocol_and_metadata(log.store, segment)
    return None if metadata is None else metadata.id
