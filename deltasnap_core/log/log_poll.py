"""Polling a log: how far it was followed, and what a look at it shows. Plain values and what compares them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256

from deltasnap_core.log.log_listing import LogListing
from deltasnap_core.log.new_commits import commit_of
from deltasnap_core.log.table_condition import TableCondition
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus, LogStore

# The commit of a cursor is read once to know it again; of a larger one, size and time have to do.
_MOST_BYTES = 16 << 20


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """How far a log was followed, in a form that shows later whether it is still the same log.

    generation: the table's id. size, modification_time (ms), sha256 (hex): of the commit file of `version`; None: it
    was gone already, or is too large to be read for this.
    """

    generation: str
    version: int
    size: int | None = None
    modification_time: int | None = None
    sha256: str | None = None

    def to_text(self) -> str:
        """Return the cursor as text, for a sensor to keep."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> LogCursor:
        """Return the cursor from what `to_text` gave. Errors: ValueError for anything else."""
        try:
            values = decode_json(text)
            cursor = cls(**values)
        except TypeError as error:
            raise ValueError(f"not a cursor of a log: {text!r}") from error
        if not isinstance(cursor.generation, str) or type(cursor.version) is not int or cursor.version < 0:
            raise ValueError(f"not a cursor of a log: {text!r}")
        return cursor

    def is_at(self, commit: FileStatus | None) -> bool:
        """Whether a commit file is, by size and time, the one that the cursor was left at; False for one unknown."""
        return commit is not None and (commit.size, commit.modification_time) == (self.size, self.modification_time)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LogStatus:
    """What a look at a log showed.

    generation: the table's id; another than that of a cursor: the table was dropped and created again.
    latest:     the latest version.
    versions:   those that can be reconstructed, ascending: all of them, or after a poll of a log that goes on from the
                cursor the new ones only.
    commits:    the commit files by version, ascending, as far as `versions` goes back: to compare with those known.
    is_fork:    whether the log of the same table does not go on from the cursor: it was restored, rolled back or
                rewritten, and perhaps written on. `versions` and `commits` are then all there are; the first that
                differs from what is known is found by comparing.
    listing:    the whole log as it was listed, for `TableLog.range` and `TableLog.history_of`; None: only what is new
                was looked at.
    condition:  what is wrong with the log, without the pages of its checkpoints; None: it was not examined.
    """

    generation: str
    latest: int
    versions: tuple[int, ...]
    is_fork: bool = False
    commits: Mapping[int, FileStatus] = field(default_factory=dict, repr=False, compare=False)
    listing: LogListing | None = field(default=None, repr=False, compare=False)
    condition: TableCondition | None = field(default=None, repr=False, compare=False)


def cursor_at(store: LogStore, log_path: str, generation: str, version: int) -> LogCursor:
    """Return the cursor to leave once everything up to a version is dealt with: one look at its commit, one read."""
    commit = commit_of(store, log_path, version)
    if commit is None:
        return LogCursor(generation=generation, version=version)
    return LogCursor(
        generation=generation,
        version=version,
        size=commit.size,
        modification_time=commit.modification_time,
        sha256=_digest(store, commit),
    )


def goes_on_from(store: LogStore, cursor: LogCursor, commit: FileStatus | None, latest: int) -> bool:
    """Whether a log whose commit of the cursor's version is now `commit` (None: gone) is the one that was followed.

    Copying a table changes the times of its commits, cleaning its log deletes them: neither makes it another one. So
    it is the commit's content that counts, read where only its time has changed.
    """
    if latest < cursor.version:
        return False
    if commit is None or cursor.size is None or cursor.is_at(commit):
        return True
    return commit.size == cursor.size and (cursor.sha256 is None or cursor.sha256 == _digest(store, commit))


def _digest(store: LogStore, commit: FileStatus) -> str | None:
    if commit.size > _MOST_BYTES:
        return None
    try:
        return sha256(store.read_bytes(commit.path)).hexdigest()
    except FileNotFoundError:  # cleaned away since
        return None
