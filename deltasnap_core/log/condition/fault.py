"""Fault: one fault of the log of a table, and the kinds of faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr

Mark = Literal["ok", "warning", "error"]


class FaultKind(StrEnum):
    """The kinds of faults that the log of a table can have."""

    NO_TABLE = "no_table"
    ACCESS_DENIED = "access_denied"
    STORAGE_FAILED = "storage_failed"
    MISSING_COMMIT = "missing_commit"
    CORRUPT_COMMIT = "corrupt_commit"
    EMPTY_COMMIT = "empty_commit"
    MISSING_ACTION = "missing_action"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    BROKEN_SCHEMA = "broken_schema"
    CORRUPT_CHECKPOINT = "corrupt_checkpoint"
    BROKEN_HINT = "broken_hint"
    LOST_VERSIONS = "lost_versions"
    AMBIGUOUS_COMMIT = "ambiguous_commit"
    BROKEN_TIMESTAMPS = "broken_timestamps"
    NEGATIVE_NUMBER = "negative_number"
    WRONG_CHECKSUM = "wrong_checksum"
    WRONG_CHECKPOINT = "wrong_checkpoint"
    UNPUBLISHED_COMMIT = "unpublished_commit"

    @property
    def is_in_commits(self) -> bool:
        """Whether only reading the commits detects the fault. Every version can be loaded."""
        return self in _FOUND_IN_COMMITS

    @property
    def is_of_checkpoint(self) -> bool:
        """Whether reading a checkpoint detects the fault."""
        return self in (FaultKind.CORRUPT_CHECKPOINT, FaultKind.WRONG_CHECKPOINT)


_FOUND_IN_COMMITS = (
    FaultKind.AMBIGUOUS_COMMIT,
    FaultKind.BROKEN_TIMESTAMPS,
    FaultKind.EMPTY_COMMIT,  # it may have blank lines, which no listing shows
    FaultKind.NEGATIVE_NUMBER,
)
_MAY_HAVE_FALLBACK = (
    *_FOUND_IN_COMMITS,
    FaultKind.CORRUPT_COMMIT,
    FaultKind.MISSING_COMMIT,
    FaultKind.CORRUPT_CHECKPOINT,
    FaultKind.BROKEN_HINT,
    FaultKind.LOST_VERSIONS,
    FaultKind.WRONG_CHECKSUM,
    FaultKind.WRONG_CHECKPOINT,
    FaultKind.UNPUBLISHED_COMMIT,
)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a log.

    text:         the fault in full sentences: where it is, what is wrong, and what is read instead.
    advice:       what to do.
    file, line:   URL of the file, without credentials, and the line in it, from 1; None: the fault concerns no single
                  file, or no single line.
    reason:       the expected and the found content, without the file.
    versions:     the versions that cannot be loaded because of it; empty for a fault with a fallback.
    missing:      the versions whose commits are missing; only for MISSING_COMMIT.
    read_instead: the files that deltasnap reads in place of a damaged checkpoint; None: nothing can replace it.
    """

    kind: FaultKind
    text: str
    advice: str
    file: str | None = None
    line: int | None = None
    reason: str = ""
    versions: VersionRanges = field(default_factory=VersionRanges)
    missing: VersionRanges = field(default_factory=VersionRanges)
    read_instead: str | None = None

    @property
    def mark(self) -> Mark:
        """`error` if a version cannot be loaded or the table cannot be reached; otherwise `warning`."""
        has_fallback = self.kind in _MAY_HAVE_FALLBACK and not self.versions
        return "warning" if has_fallback else "error"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; versions as `[first, last]` pairs."""
        return {
            "kind": self.kind.value,
            "mark": self.mark,
            "text": self.text,
            "advice": self.advice,
            "file": self.file,
            "line": self.line,
            "reason": self.reason,
            "versions": pairs(self.versions),
            "missing": pairs(self.missing),
            "read_instead": self.read_instead,
        }


def pairs(versions: VersionRanges) -> list[Sequence[int]]:
    """Return versions as `[first, last]` pairs, for JSON."""
    return [[first, last] for first, last in versions.runs]
