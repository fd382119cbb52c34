"""The text, advice and reason of each fault of a log: one function per fault."""

from __future__ import annotations

from collections.abc import Sequence

from deltasnap_core.errors import one_line
from deltasnap_core.log.condition.fault import Fault, FaultKind
from deltasnap_core.protocol.readable_schema import Place, place_text
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted

_ADVICE_IF_REPLACED = "Restore this commit from a backup of the log, if there is one."


def missing_commits(table: str, missing: VersionRanges, versions: VersionRanges) -> Fault:
    """Return the fault of commits that are not in the log. versions: empty: a checkpoint of the same version is."""
    if not versions:
        return Fault(
            kind=FaultKind.MISSING_COMMIT,
            text=f"The {_commits(missing)} is missing in the log of {redacted(table)}. A checkpoint replaces it: "
            "no version is lost, but its history and its changes are.",
            advice=_ADVICE_IF_REPLACED,
            reason="no such commit in the log",
            missing=missing,
        )
    return Fault(
        kind=FaultKind.MISSING_COMMIT,
        text=f"The {_commits(missing)} {'is' if len(missing) == 1 else 'are'} missing in the log of {redacted(table)}: "
        f"{_cannot_load(versions)}.",
        advice="Restore the missing commits from a backup of the log. If there is none, write a checkpoint of a "
        "later version with a writer that still has the table loaded: from there on, versions can be loaded again.",
        reason="no such commit in the log, and no checkpoint replaces it",
        versions=versions,
        missing=missing,
    )


def corrupt_commit(version: int, path: str, line: int | None, reason: str, versions: VersionRanges) -> Fault:
    """Return the fault of a commit that cannot be parsed. versions: empty: a checkpoint of the same version can."""
    where = redacted(path) if line is None else f"{redacted(path)}, line {line}"
    if not versions:
        return Fault(
            kind=FaultKind.CORRUPT_COMMIT,
            text=f"The commit of version {version} cannot be read: {where}: {_sentence(reason)} A checkpoint replaces "
            "it: no version is lost, but its history and its changes are.",
            advice=_ADVICE_IF_REPLACED,
            file=redacted(path),
            line=line,
            reason=redacted(reason),
        )
    text = f"Version {version} cannot be read: {where}: {_sentence(reason)}"
    if versions.runs != ((version, version),):  # otherwise the message would repeat itself
        text += f" {_cannot_load(versions, upper=True)}."
    return Fault(
        kind=FaultKind.CORRUPT_COMMIT,
        text=text,
        advice="Restore this commit from a backup of the log. If there is none, restore the table to the version "
        "before it, or write a checkpoint of a later version with a writer that still has the table loaded.",
        file=redacted(path),
        line=line,
        reason=redacted(reason),
        versions=versions,
    )


def empty_commits(table: str, empty: VersionRanges) -> Fault:
    """Return the fault of commits without content. The protocol allows a commit without actions: the versions load."""
    return Fault(
        kind=FaultKind.EMPTY_COMMIT,
        text=f"The {_commits(empty)} {'is' if len(empty) == 1 else 'are'} empty (0 bytes, or only blank lines) in the "
        f"log of {redacted(table)}. A writer always records at least a commitInfo, so an upload failed, or the file "
        "was truncated. deltasnap treats it as a commit without changes.",
        advice="Restore the commit from a backup of the log, or check that the writer's last changes are in the table.",
        reason="a commit without any line of content",
    )


def ambiguous_commits(table: str, action: str, versions: VersionRanges, key: str | None = None) -> Fault:
    """Return the fault of commits with several actions of a kind that may occur once. deltasnap uses the last one.

    key: the field of which each value may occur once; None: the kind may occur once.
    """
    what = f"{action} action" if key is None else f"{action} action with the same {key}"
    again = (
        "set the schema, the properties and the protocol of the table again."
        if key is None
        else "whether the last of these actions is the intended one."
    )
    return Fault(
        kind=FaultKind.AMBIGUOUS_COMMIT,
        text=f"The {_commits(versions)} in the log of {table} {'has' if len(versions) == 1 else 'have'} more than "
        f"one {what}. deltasnap uses the last one; other readers may use another.",
        advice=f"Check the writer, and {again}",
        reason=f"expected at most one {what} in a commit",
    )


def contradictory_commits(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of commits that add and remove one file. deltasnap uses the added one."""
    return Fault(
        kind=FaultKind.AMBIGUOUS_COMMIT,
        text=f"The {_commits(versions)} in the log of {table} "
        f"{'adds and removes' if len(versions) == 1 else 'add and remove'} the same file. deltasnap keeps the file; "
        "other readers may not.",
        advice="Check the writer, and whether the rows of the file belong to the table. Then insert or "
        "delete them again.",
        reason="expected at most one action of a file in a commit",
    )


def repeating_commits(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of commits that add one file several times. deltasnap uses the last add of each logical file."""
    return Fault(
        kind=FaultKind.AMBIGUOUS_COMMIT,
        text=f"The {_commits(versions)} in the log of {table} {'adds' if len(versions) == 1 else 'add'} the same file "
        "more than once. deltasnap uses the last add, or with deletion vectors the last add of each vector. Other "
        "readers may use another add, or repeat the rows of the file.",
        advice="Check the writer, and whether the table has the rows of the file once. Then delete or insert them "
        "again.",
        reason="expected at most one add of a file in a commit",
    )


def repeated_removes(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of commits that remove one file several times. deltasnap uses the last remove."""
    return Fault(
        kind=FaultKind.AMBIGUOUS_COMMIT,
        text=f"The {_commits(versions)} in the log of {table} {'removes' if len(versions) == 1 else 'remove'} the same "
        "file more than once. deltasnap uses the last remove, or with deletion vectors the last remove of each vector. "
        "Other readers may reject the commit.",
        advice="Check the writer. The rows of the table do not depend on which remove a reader uses.",
        reason="expected at most one remove of a file in a commit",
    )


def repeated_partition_column(table: str, name: str, found: Sequence[str]) -> Fault:
    """Return the fault of metadata that names a partition column twice. found: all partition columns."""
    return Fault(
        kind=FaultKind.AMBIGUOUS_COMMIT,
        text=f"The metadata of {table} names the partition column {name!r} more than once. deltasnap uses it once; "
        "other readers may fail.",
        advice="Check the writer, and set the partition columns of the table again.",
        reason=f"expected each partition column once, found {list(found)!r:.200}",
    )


def negative_numbers(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of files with a negative size or number of rows. Sums include them unchanged."""
    return Fault(
        kind=FaultKind.NEGATIVE_NUMBER,
        text=f"Files of {_versions(versions)} in the log of {table} have a negative size, number of records or "
        "number of deleted rows, or more deleted rows than records. The sizes and numbers of rows of the table are "
        "wrong.",
        advice="Check the writer, and rewrite the files, for example with OPTIMIZE.",
        reason="expected sizes and numbers of rows of at least 0",
    )


def wrong_checksum(version: int, path: str, fields: Sequence[str]) -> Fault:
    """Return the fault of a `.crc` file that differs from the log. fields: the names of those that differ."""
    return Fault(
        kind=FaultKind.WRONG_CHECKSUM,
        text=f"The log differs from the checksum of version {version}: {', '.join(fields)}.",
        advice="Trust the log, not the checksum: delete the `.crc` file, and upgrade the writer of that version.",
        file=redacted(path),
        reason=f"expected the values of the log: {', '.join(fields)}",
    )


def decreasing_timestamps(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of in-commit timestamps before that of the previous version. All versions can be loaded."""
    return Fault(
        kind=FaultKind.BROKEN_TIMESTAMPS,
        text=f"The in-commit timestamp of {_versions(versions)} in the log of {table} is earlier than that of the "
        "previous version. Time travel to a timestamp may fail.",
        advice="Use versions instead of timestamps, and check the clock and the version of the writer.",
        reason="expected in-commit timestamps that increase",
    )


def future_timestamps(table: str, versions: VersionRanges) -> Fault:
    """Return the fault of commits whose timestamp is more than a day in the future. All versions can be loaded."""
    return Fault(
        kind=FaultKind.BROKEN_TIMESTAMPS,
        text=f"The timestamp of {_versions(versions)} in the log of {table} is in the future. Time travel to a "
        "timestamp finds neither this version nor later ones.",
        advice="Use versions instead of timestamps, and correct the clock of the writer. Without in-commit timestamps, "
        "also correct the modification time of the commit.",
        reason="expected timestamps up to now",
    )


def incomplete_enablement(table: str) -> Fault:
    """Return the fault of a table that states incompletely when in-commit timestamps were enabled."""
    names = [f"delta.inCommitTimestampEnablement{each}" for each in ("Version", "Timestamp")]
    return Fault(
        kind=FaultKind.BROKEN_TIMESTAMPS,
        text=f"{table} has only one of the table properties {' and '.join(names)}. Other readers may reject time "
        "travel to a timestamp.",
        advice="Set both properties to the first version with in-commit timestamps and to its timestamp.",
        reason="expected both properties or none",
    )


def lost_versions(table: str, lost: VersionRanges, latest: int) -> Fault:
    """Return the fault of stored versions that are gone from the end of the log. The other versions can be loaded."""
    word, they, were = ("Version", "is", "it was") if len(lost) == 1 else ("Versions", "are", "they were")
    return Fault(
        kind=FaultKind.LOST_VERSIONS,
        text=f"{word} {lost.text()} {they} gone from the log of {table}: {were} stored, and the log now ends with "
        f"version {latest}.",
        advice="If the table was not rolled back or created again on purpose, restore the commits from a backup of the "
        "log. Otherwise no action is needed: this warning ends when the next version is stored.",
        reason=f"the log ends with version {latest}",
    )


def unpublished_commits(table: str, versions: VersionRanges, latest: int) -> Fault:
    """Return the fault of a catalog-managed table that has staged commits after its latest published version."""
    return Fault(
        kind=FaultKind.UNPUBLISHED_COMMIT,
        text=f"A catalog manages {redacted(table)} and was not queried. The {_commits(versions)} "
        f"{'is' if len(versions) == 1 else 'are'} staged, but not published: deltasnap shows version {latest}, and the "
        "catalog may have a later one.",
        advice="Have the writer or the catalog publish the commits that the catalog ratified. This warning ends when "
        "the log reaches these versions.",
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
    """Return the fault of a checkpoint that a hint contradicts, if it is unknown which of the two is right."""
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


def wrong_checkpoint(version: int, path: str, num_found: int, num_stored: int) -> Fault:
    """Return the fault of a checkpoint that can be read, but contradicts the commits that the store follows.

    num_found, num_stored: the number of files in the checkpoint and in the stored version.
    """
    name = redacted(path).rpartition("/")[2]
    files = f"{num_found:,} file{'' if num_found == 1 else 's'}"
    return Fault(
        kind=FaultKind.WRONG_CHECKPOINT,
        text=f"The checkpoint of version {version} contradicts the stored version: {name} has {files}, the "
        f"stored version has {num_stored:,}. The store follows the commits. Readers of this checkpoint see {files} and "
        "the later commits.",
        advice="If the log still has all commits since version 0, or since an older checkpoint, move this checkpoint "
        "out of _delta_log, and _last_checkpoint too if it names this version. Only then write a new checkpoint, with "
        "`deltasnap checkpoint PATH` or any Delta writer. Otherwise restore the checkpoint from a backup of the log.",
        file=redacted(path),
        reason=f"expected {num_stored} files, found {num_found}",
    )


def broken_schema(table: str, reason: str, place: Place | None) -> Fault:
    """Return the fault of a schema that cannot be parsed, or that the protocol does not allow.

    place: of the metadata; None: unknown.
    """
    reason = redacted(reason)
    file, line = place or (None, None)
    return Fault(
        kind=FaultKind.BROKEN_SCHEMA,
        text=f"The schema of {table}{place_text(place)} cannot be read: {_sentence(reason)} Its files can be counted, "
        "but its rows cannot be read.",
        advice="Restore the commit that wrote the schema from a backup of the log, or restore the table to the version "
        "before it.",
        file=file and redacted(file),
        line=line,
        reason=reason,
    )


def unsupported_type_change(table: str, change: str, place: Place | None) -> Fault:
    """Return the fault of a schema with a recorded change of a type that is not supported. place: as above."""
    change = redacted(change)
    file, line = place or (None, None)
    return Fault(
        kind=FaultKind.BROKEN_SCHEMA,
        text=f"The schema of {table}{place_text(place)} needs {change}, which deltasnap does not support. Its files "
        "can be counted, but its rows cannot be read.",
        advice="Upgrade to a release of deltasnap that supports the change, or drop the feature (`ALTER TABLE ... "
        "DROP FEATURE typeWidening`), which rewrites the files.",
        file=file and redacted(file),
        line=line,
        reason=f"unsupported: {change}",
    )


def _cannot_load(versions: VersionRanges, *, upper: bool = False) -> str:
    if not versions:
        return f"{'N' if upper else 'n'}o version is lost"
    text = f"{_versions(versions)} cannot be loaded"
    return f"V{text[1:]}" if upper else text


def _versions(versions: VersionRanges) -> str:
    return f"version{'' if len(versions) == 1 else 's'} {versions.text()}"


def _commits(versions: VersionRanges) -> str:
    return f"commit{'' if len(versions) == 1 else 's'} of {_versions(versions)}"


def _sentence(text: str) -> str:
    text = one_line(text)
    return text if text.endswith((".", "!", "?")) else f"{text}."
