"""The values of a poll: LogCursor, a position in a log; LogStatus, the versions of a log, or the new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from deltasnap_core.errors import StorageError
from deltasnap_core.log.commits.commit_reader import digest_of
from deltasnap_core.log.condition.table_condition import TableCondition
from deltasnap_core.log.damaged_commit import is_damaged
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.polling.new_commits import commit_of
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus, LogStore

# The commit of a cursor is read once for its digest. A larger commit is compared by size and time only.
_MAX_BYTES = 16 << 20
_TABLE_ID = "generation"
"""The key in stored cursors. Sensors keep cursors of earlier releases."""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """A position in a log. It identifies the commit there, so that a replaced log is detected.

    size, modification_time (ms), sha256 (hex): of the commit file of `version`. None: the file no longer exists; for
                `sha256` also: the file is too large to read.
    """

    table_id: str
    version: int
    size: int | None = None
    modification_time: int | None = None
    sha256: str | None = None

    def to_text(self) -> str:
        """Return the cursor as text, which a sensor can store."""
        values = asdict(self)
        return json.dumps({_TABLE_ID: values.pop("table_id"), **values})

    @classmethod
    def from_text(cls, text: str) -> LogCursor:
        """Return the cursor from the result of `to_text`. Errors: ValueError for any other text."""
        try:
            values = decode_json(text)
            cursor = cls(table_id=values.pop(_TABLE_ID), **values)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"expected a log cursor, found {text!r}") from error
        if not isinstance(cursor.table_id, str) or type(cursor.version) is not int or cursor.version < 0:
            raise ValueError(f"expected a log cursor, found {text!r}")
        return cursor

    def is_at(self, commit: FileStatus | None) -> bool:
        """Return whether a commit file has the size and time in the cursor.

        False if there is no file, or if the cursor has neither.
        """
        return commit is not None and (commit.size, commit.modification_time) == (self.size, self.modification_time)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """The versions of a log that can be reconstructed: all of them, or the new ones.

    table_id:   differs from that of a cursor if the table was dropped and created again.
    latest:     the latest version.
    versions:   the versions that can be reconstructed, ascending: all of them, or only the new ones after a poll of a
                log that continues from the cursor.
    commits:    the commit files by version, ascending, as far back as `versions`. Compare them with the known ones.
    is_fork:    whether the log of the same table does not continue from the cursor: it was restored, rolled back or
                rewritten, and perhaps extended. `versions` and `commits` are then complete; compare them with the known
                commits to find the first difference.
    listing:    the listing of the whole log, for `TableLog.range` and `TableLog.history_of`; None: only new files were
                listed.
    condition:  the faults of the log, without the pages of its checkpoints; None: the log was not examined.
    """

    table_id: str
    latest: int
    versions: tuple[int, ...]
    is_fork: bool = False
    commits: Mapping[int, FileStatus] = field(default_factory=dict, repr=False, compare=False)
    listing: LogListing | None = field(default=None, repr=False, compare=False)
    condition: TableCondition | None = field(default=None, repr=False, compare=False)


def cursor_at(store: LogStore, log_path: str, table_id: str, version: int) -> LogCursor:
    """Return the cursor to store after all versions up to `version` are processed.

    Takes one request for its commit, and one read.
    """
    commit = commit_of(store, log_path, version)
    if commit is None:
        return LogCursor(table_id=table_id, version=version)
    return LogCursor(
        table_id=table_id,
        version=version,
        size=commit.size,
        modification_time=commit.modification_time,
        sha256=_digest(store, commit),
    )


def continues_from(store: LogStore, cursor: LogCursor, commit: FileStatus | None, latest: int) -> bool:
    """Return whether a log continues from a cursor. commit: the commit of the cursor's version now; None: it is gone.

    Copying a table changes the times of its commits, and a cleanup deletes commits. In both cases,
    it is the same log. So the content of the commit decides; it is read only if its time has changed. A damaged commit
    proves nothing.
    """
    if latest < cursor.version:
        return False
    if commit is None or cursor.size is None or cursor.is_at(commit):
        return True
    if commit.size == cursor.size and (cursor.sha256 is None or cursor.sha256 == _digest(store, commit)):
        return True
    return is_damaged(store, commit)


def _digest(store: LogStore, commit: FileStatus) -> str | None:
    if commit.size > _MAX_BYTES:
        return None
    try:
        return digest_of(store.read_bytes(commit.path))
    except FileNotFoundError:  # cleaned up in the meantime
        return None
    except StorageError:
        if commit.size:
            raise
        return None  # a link or folder
