"""TableCondition: the loadable versions of a table, the faults of its log, and advice. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from deltasnap_core.errors import one_line
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.readable_schema import check_schema
from deltasnap_core.protocol.table_features import metadata_to_read
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted, safe_repr

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

    @property
    def is_in_commits(self) -> bool:
        """Whether only reading the commits shows such a fault, although every version can be loaded."""
        return self in _FOUND_IN_COMMITS


_FOUND_IN_COMMITS = (FaultKind.AMBIGUOUS_COMMIT, FaultKind.BROKEN_TIMESTAMPS, FaultKind.NEGATIVE_NUMBER)
_MAY_HAVE_FALLBACK = (
    *_FOUND_IN_COMMITS,
    FaultKind.CORRUPT_CHECKPOINT,
    FaultKind.BROKEN_HINT,
    FaultKind.EMPTY_COMMIT,
    FaultKind.LOST_VERSIONS,
    FaultKind.WRONG_CHECKSUM,
    FaultKind.WRONG_CHECKPOINT,
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
            "versions": _pairs(self.versions),
            "missing": _pairs(self.missing),
            "read_instead": self.read_instead,
        }


@safe_repr
@dataclass(frozen=True, slots=True)
class CountedCheckpoint:
    """A checkpoint whose pages were read: its version, the URL of its (first) file, and the number of files in it.

    doubt: the reason of the fault that a hint states another number of files; None: none does.
    """

    version: int
    path: str
    num_files: int
    doubt: str | None = None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TableCondition:
    """The condition of a table, derived from its log alone.

    table:            URL of the table, without credentials.
    latest:           the latest version that has a commit or a checkpoint; None: there is none, or it is unknown.
    loadable:         the versions that can be loaded.
    faults:           errors first, each group in log order.
    commits_read:     the versions whose commits were read.
    unread:           the versions whose commits were only listed.
    checkpoints_read: names of the top-level files of the checkpoints that were read: the newest one and, if it is
                      damaged, the next older ones. Other checkpoints count as sound.
    pages_read:       whether every page of those checkpoints was read; False: only the footers and non-file actions.
    checkpoint:       `LogListing.newest_checkpoint`, if its pages were read; None: they were not, or there is none.
    counted:          the newest sound checkpoint, if its pages were read; None: they were not, or there is none.
    """

    table: str
    latest: int | None = None
    loadable: VersionRanges = field(default_factory=VersionRanges)
    faults: tuple[Fault, ...] = ()
    commits_read: VersionRanges = field(default_factory=VersionRanges)
    unread: VersionRanges = field(default_factory=VersionRanges)
    checkpoints_read: tuple[str, ...] = ()
    pages_read: bool = False
    checkpoint: str | None = field(default=None, repr=False, compare=False)
    counted: CountedCheckpoint | None = field(default=None, repr=False, compare=False)

    @property
    def mark(self) -> Mark:
        """The worst mark of all faults; `ok` if there are none."""
        marks = {fault.mark for fault in self.faults}
        return "error" if "error" in marks else "warning" if marks else "ok"

    @property
    def is_complete(self) -> bool:
        """Whether every commit and every page of the newest checkpoint was read: no fault can be hidden."""
        return self.pages_read and not self.unread

    @property
    def is_readable(self) -> bool:
        """Whether the latest version can be loaded."""
        return self.latest is not None and self.latest in self.loadable

    @property
    def newest_loadable(self) -> int | None:
        """The newest version that can be loaded; None: there is none."""
        return self.loadable.runs[-1][1] if self.loadable.runs else None

    @property
    def unloadable(self) -> VersionRanges:
        """The versions that cannot be loaded because of a fault."""
        return joined(fault.versions for fault in self.faults)

    def faults_of(self, *kinds: FaultKind) -> tuple[Fault, ...]:
        """Return the faults of the given kinds."""
        return tuple(fault for fault in self.faults if fault.kind in kinds)

    def faults_at(self, version: int) -> tuple[Fault, ...]:
        """Return the faults that prevent a version from being loaded."""
        return tuple(fault for fault in self.faults if version in fault.versions)

    def without(self, kind: FaultKind) -> TableCondition:
        """Return this condition without the faults of a kind."""
        return replace(self, faults=tuple(fault for fault in self.faults if fault.kind is not kind))

    def with_schema_of(self, metadata: Metadata | None, protocol: Protocol | None) -> TableCondition:
        """Return this condition with a fault added if the schema in force is invalid. None: unknown."""
        if metadata is None or self.faults_of(FaultKind.BROKEN_SCHEMA):
            return self
        try:
            check_schema(metadata_to_read(protocol, metadata))
        except ValueError as error:
            faults = sorted(
                (*self.faults, _broken_schema(self.table, str(error))), key=lambda each: each.mark != "error"
            )
            return replace(self, faults=tuple(faults))
        return self

    def with_wrong_checksum(self, version: int, fields: Sequence[str]) -> TableCondition:
        """Return this condition with a fault added if the checksum of a version differs from the log in some fields."""
        if not fields or self.faults_of(FaultKind.WRONG_CHECKSUM):
            return self
        return replace(self, faults=(*self.faults, wrong_checksum(version, fields)))

    def with_stored_files(self, num_files: int) -> TableCondition:
        """Return this condition with a fault added if the counted checkpoint has another number of files than stored.

        If it has the same number, a hint that states another one is wrong, and no fault of the checkpoint.
        num_files: of the stored version of that checkpoint.
        """
        counted = self.counted
        if counted is None:
            return self
        doubt = (FaultKind.WRONG_CHECKPOINT, counted.doubt)
        others = tuple(fault for fault in self.faults if (fault.kind, fault.reason) != doubt)
        if counted.num_files == num_files:
            return replace(self, faults=others)
        return replace(self, faults=(*others, _wrong_checkpoint(counted, num_files)))

    def with_known_faults(self, faults: Iterable[Fault]) -> TableCondition:
        """Return this condition with faults added that were found in commits which this examination did not read."""
        texts = {fault.text for fault in self.faults}
        return replace(self, faults=(*self.faults, *(fault for fault in faults if fault.text not in texts)))

    def with_lost_versions(self, lost: VersionRanges) -> TableCondition:
        """Return this condition with a fault added for versions that were stored and are gone from the end of the log.

        The log alone does not show them. lost: may be empty.
        """
        if not lost or self.latest is None:
            return self
        return replace(self, faults=(*self.faults, _lost_versions(self.table, lost, self.latest)))

    @property
    def text(self) -> str:
        """The texts of all faults; empty if there are none."""
        return " ".join(fault.text for fault in self.faults)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; versions as `[first, last]` pairs."""
        return {
            "mark": self.mark,
            "latest_version": self.latest,
            "loadable_versions": _pairs(self.loadable),
            "unloadable_versions": _pairs(self.unloadable),
            "unread_versions": _pairs(self.unread),
            "faults": [fault.to_json() for fault in self.faults],
        }


def joined(ranges: Any) -> VersionRanges:
    """Return the union of version ranges. The cost depends on the number of runs, not on the number of versions."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(run for each in ranges for run in each.runs):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return VersionRanges(tuple(runs))


def missing_commits(table: str, missing: VersionRanges, versions: VersionRanges) -> Fault:
    """Return the fault of commits that are not in the log."""
    word, they = ("commit of version", "is") if len(missing) == 1 else ("commits of versions", "are")
    return Fault(
        kind=FaultKind.MISSING_COMMIT,
        text=f"The {word} {missing.text()} {they} missing in the log of {redacted(table)}: {_cannot_load(versions)}.",
        advice="Restore the missing commits from a backup of the log. If there is none, write a checkpoint of a "
        "later version with a writer that still has the table loaded: from there on, versions can be loaded again.",
        reason="no such commit in the log, and no checkpoint replaces it",
        versions=versions,
        missing=missing,
    )


def corrupt_commit(version: int, path: str, line: int | None, reason: str, versions: VersionRanges) -> Fault:
    """Return the fault of a commit that cannot be parsed."""
    where = redacted(path) if line is None else f"{redacted(path)}, line {line}"
    return Fault(
        kind=FaultKind.CORRUPT_COMMIT,
        text=f"Version {version} cannot be read: {where}: {_sentence(reason)} {_cannot_load(versions, upper=True)}.",
        advice="Restore this commit from a backup of the log. If there is none, restore the table to the version "
        "before it, or write a checkpoint of a later version with a writer that still has the table loaded.",
        file=redacted(path),
        line=line,
        reason=redacted(reason),
        versions=versions,
    )


def empty_commits(table: str, empty: VersionRanges) -> Fault:
    """Return the fault of commits without content. The protocol allows a commit without actions: the versions load."""
    word, they = ("commit of version", "is") if len(empty) == 1 else ("commits of versions", "are")
    return Fault(
        kind=FaultKind.EMPTY_COMMIT,
        text=f"The {word} {empty.text()} {they} empty (0 bytes, or only blank lines) in the log of "
        f"{redacted(table)}. A writer always records at least a commitInfo, so an upload failed, or the file was "
        "truncated. deltasnap treats it as a commit without changes.",
        advice="Restore the commit from a backup of the log, or check that the writer's last changes are in the table.",
        reason="a commit without any line of content",
    )


def ambiguous_commits(table: str, action: str, versions: VersionRanges) -> Fault:
    """Return the fault of commits with several actions of a kind that may occur once. deltasnap uses the last one."""
    word = "commit of version" if len(versions) == 1 else "commits of versions"
    return Fault(
        kind=FaultKind.AMBIGUOUS_COMMIT,
        text=f"The {word} {versions.text()} in the log of {table} {'has' if len(versions) == 1 else 'have'} more than "
        f"one {action} action. deltasnap uses the last one, other readers may use another.",
        advice="Check the writer, and set the schema, the properties and the protocol of the table again.",
        reason=f"expected at most one {action} action in a commit",
    )


def negative_numbers(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of files with a negative size or number of rows; sums include them as they are."""
    word = "version" if len(versions) == 1 else "versions"
    return Fault(
        kind=FaultKind.NEGATIVE_NUMBER,
        text=f"Files of {word} {versions.text()} in the log of {table} have a negative size, number of records or "
        "number of deleted rows, or more deleted rows than records. The sizes and numbers of rows of the table are "
        "wrong.",
        advice="Check the writer, and rewrite the files, for example with OPTIMIZE.",
        reason="expected sizes and numbers of rows of at least 0",
    )


def wrong_checksum(version: int, fields: Sequence[str]) -> Fault:
    """Return the fault of a `.crc` file that differs from the log. fields: the names of those that differ."""
    return Fault(
        kind=FaultKind.WRONG_CHECKSUM,
        text=f"The log differs from the checksum of version {version}: {', '.join(fields)}.",
        advice="Trust the log, not the checksum: delete the `.crc` file, and upgrade the writer of that version.",
        reason=f"expected the values of the log: {', '.join(fields)}",
    )


def decreasing_timestamps(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of in-commit timestamps before that of the previous version. They do not hinder a load."""
    word = "version" if len(versions) == 1 else "versions"
    return Fault(
        kind=FaultKind.BROKEN_TIMESTAMPS,
        text=f"The in-commit timestamp of {word} {versions.text()} in the log of {table} is before that of the version "
        "before. Time travel to a timestamp may fail.",
        advice="Use versions instead of timestamps, and check the clock and the version of the writer.",
        reason="expected in-commit timestamps that increase",
    )


def future_timestamps(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of commits whose timestamp is more than a day in the future. They do not hinder a load."""
    word = "version" if len(versions) == 1 else "versions"
    return Fault(
        kind=FaultKind.BROKEN_TIMESTAMPS,
        text=f"The timestamp of {word} {versions.text()} in the log of {table} is in the future. Time travel to a "
        "timestamp finds neither this version nor later ones.",
        advice="Use versions instead of timestamps, and correct the clock of the writer. Without in-commit timestamps, "
        "also correct the modification time of the commit.",
        reason="expected timestamps up to now",
    )


def incomplete_enablement(table: str) -> Fault:
    """Return the fault of a table that states only partly since when it has in-commit timestamps."""
    names = [f"delta.inCommitTimestampEnablement{each}" for each in ("Version", "Timestamp")]
    return Fault(
        kind=FaultKind.BROKEN_TIMESTAMPS,
        text=f"Of the table properties {' and '.join(names)}, {table} has only one. Other readers may reject time "
        "travel to a timestamp.",
        advice="Set both properties to the first version with in-commit timestamps and to its timestamp.",
        reason="expected both properties or none",
    )


def _lost_versions(table: str, lost: VersionRanges, latest: int) -> Fault:
    word, they, were = ("Version", "is", "it was") if len(lost) == 1 else ("Versions", "are", "they were")
    return Fault(
        kind=FaultKind.LOST_VERSIONS,
        text=f"{word} {lost.text()} {they} gone from the log of {table}: {were} stored, and the log now ends with "
        f"version {latest}.",
        advice="If the table was not rolled back or created again on purpose, restore the commits from a backup of the "
        "log. Otherwise no action is needed: this warning ends when the next version is stored.",
        reason=f"the log ends with version {latest}",
    )


def corrupt_checkpoint(
    version: int, path: str, reason: str, read_instead: str | None, versions: VersionRanges
) -> Fault:
    """Return the fault of a checkpoint that cannot be read. read_instead: None: nothing can replace it."""
    name = redacted(path).rpartition("/")[2]
    text = f"The checkpoint of version {version} cannot be read: {name}: {_sentence(redacted(reason))}"
    if read_instead is None:
        text += f" Nothing can replace it: {_cannot_load(versions)}."
        advice = "Restore the file from a backup of the log."
    else:
        text += f" deltasnap reads {read_instead} instead. Other readers that use this checkpoint fail."
        advice = (
            "Move the damaged checkpoint out of _delta_log, and _last_checkpoint too if it names this version. Then "
            "write a new checkpoint (`deltasnap checkpoint PATH`, or any Delta writer)."
        )
    return Fault(
        kind=FaultKind.CORRUPT_CHECKPOINT,
        text=text,
        advice=advice,
        file=redacted(path),
        reason=redacted(reason),
        versions=versions,
        read_instead=read_instead,
    )


def doubted_checkpoint(version: int, path: str, reason: str, is_replaceable: bool) -> Fault:
    """Return the fault of a checkpoint that a hint contradicts, where nothing shows which of them is right."""
    name, instead = redacted(path).rpartition("/")[2], "an older checkpoint or the commits"
    read = f"deltasnap reads {instead} instead" if is_replaceable else "Nothing can replace it: deltasnap reads it"
    return Fault(
        kind=FaultKind.WRONG_CHECKPOINT,
        text=f"The checkpoint of version {version} contradicts a hint: {name}: {_sentence(redacted(reason))} {read}. "
        "If the hint is right, readers of this checkpoint lose files or other actions.",
        advice="If the hint is wrong, delete it. Otherwise restore the checkpoint from a backup of the log, or move it "
        "out of _delta_log and write a new one.",
        file=redacted(path),
        reason=redacted(reason),
        read_instead=instead if is_replaceable else None,
    )


def _wrong_checkpoint(found: CountedCheckpoint, num_stored: int) -> Fault:
    """Return the fault of a checkpoint that can be read, but contradicts the commits that the store follows."""
    name = redacted(found.path).rpartition("/")[2]
    files = f"{found.num_files:,} file{'' if found.num_files == 1 else 's'}"
    return Fault(
        kind=FaultKind.WRONG_CHECKPOINT,
        text=f"The checkpoint of version {found.version} contradicts the stored version: {name} has {files}, the "
        f"stored version has {num_stored:,}. The store follows the commits. Readers of this checkpoint see {files} and "
        "the later commits.",
        advice="If the log still has all commits since version 0, or since an older checkpoint, move this checkpoint "
        "out of _delta_log, and _last_checkpoint too if it names this version. Only then write a new checkpoint, with "
        "`deltasnap checkpoint PATH` or any Delta writer. Otherwise restore the checkpoint from a backup of the log.",
        file=redacted(found.path),
        reason=f"expected {num_stored} files, found {found.num_files}",
    )


def _broken_schema(table: str, reason: str) -> Fault:
    reason = redacted(reason)
    return Fault(
        kind=FaultKind.BROKEN_SCHEMA,
        text=f"The schema of {table} cannot be read: {_sentence(reason)} Its files can be counted, "
        "but its rows cannot be read.",
        advice="Restore the commit that wrote the schema from a backup of the log, or restore the table to the version "
        "before it.",
        reason=reason,
    )


def _cannot_load(versions: VersionRanges, *, upper: bool = False) -> str:
    if not versions:
        return f"{'N' if upper else 'n'}o version is lost"
    word = "ersion" if len(versions) == 1 else "ersions"
    return f"{'V' if upper else 'v'}{word} {versions.text()} cannot be loaded"


def _sentence(text: str) -> str:
    text = one_line(text)
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _pairs(versions: VersionRanges) -> list[Sequence[int]]:
    return [[first, last] for first, last in versions.runs]
