"""The kinds of problems of a table, and one table of their severities, sentences and advice."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

Severity = Literal["error", "unknown", "warning", "stale"]
"""The worst first. unknown: whether the table has problems is not known. stale: its last commit is too old."""


class ProblemKind(StrEnum):
    """The kinds of problems that a table can have: of its log, of checks and runs, of the store, of what is known."""

    NO_TABLE = "no_table"
    ACCESS_DENIED = "access_denied"
    STORAGE_FAILED = "storage_failed"
    CATALOG_FAILED = "catalog_failed"
    MISSING_COMMIT = "missing_commit"
    UNNEEDED_COMMIT = "unneeded_commit"
    CORRUPT_COMMIT = "corrupt_commit"
    EMPTY_COMMIT = "empty_commit"
    MISSING_ACTION = "missing_action"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    INVALID_PROTOCOL = "invalid_protocol"
    BROKEN_SCHEMA = "broken_schema"
    UNSUPPORTED_TYPE_CHANGE = "unsupported_type_change"
    CORRUPT_CHECKPOINT = "corrupt_checkpoint"
    WRONG_CHECKPOINT = "wrong_checkpoint"
    BROKEN_HINT = "broken_hint"
    WRONG_CHECKSUM = "wrong_checksum"
    LOST_VERSIONS = "lost_versions"
    UNPUBLISHED_COMMIT = "unpublished_commit"
    REPEATED_METADATA = "repeated_metadata"
    REPEATED_PROTOCOL = "repeated_protocol"
    REPEATED_TRANSACTION = "repeated_transaction"
    REPEATED_DOMAIN_METADATA = "repeated_domain_metadata"
    REPEATED_ADD = "repeated_add"
    REPEATED_REMOVE = "repeated_remove"
    CONTRADICTORY_COMMIT = "contradictory_commit"
    REPEATED_PARTITION_COLUMN = "repeated_partition_column"
    DECREASING_TIMESTAMP = "decreasing_timestamp"
    FUTURE_TIMESTAMP = "future_timestamp"
    INCOMPLETE_ENABLEMENT = "incomplete_enablement"
    NEGATIVE_NUMBER = "negative_number"

    FAILED_CHECK = "failed_check"
    UNREAD_FACTS = "unread_facts"
    FAILED_RUN = "failed_run"
    NO_WANTED_VERSION = "no_wanted_version"
    STALE = "stale"
    FUTURE_COMMIT = "future_commit"

    DAMAGED_STORE = "damaged_store"
    LOST_MANIFEST = "lost_manifest"
    LOST_FILES = "lost_files"
    UNSHARED_STORE = "unshared_store"
    UNREADABLE_STORE = "unreadable_store"
    LATER_STORE = "later_store"
    DAMAGED_STATUS = "damaged_status"
    LOST_STATUS = "lost_status"
    OTHER_TABLE = "other_table"

    NEVER_POLLED = "never_polled"
    OLD_POLL = "old_poll"
    FUTURE_POLL = "future_poll"
    OLD_EXAMINATION = "old_examination"
    NEVER_CHECKED = "never_checked"
    UNCHECKED_VERSIONS = "unchecked_versions"
    NOT_FOLLOWED = "not_followed"
    LOST_TABLE = "lost_table"

    @property
    def is_in_commits(self) -> bool:
        """Whether only reading the commits detects the problem. Every version can be loaded."""
        return self in _FOUND_IN_COMMITS

    @property
    def is_of_checkpoint(self) -> bool:
        """Whether reading a checkpoint detects the problem."""
        return self in _FOUND_IN_CHECKPOINTS

    @property
    def is_of_checkpoint_or_hint(self) -> bool:
        """Whether the problem is of a checkpoint, or of the hint `_last_checkpoint`."""
        return self.is_of_checkpoint or self is ProblemKind.BROKEN_HINT

    @property
    def is_of_access(self) -> bool:
        """Whether there is no log that can be listed and read."""
        return self in _OF_ACCESS

    @property
    def is_of_protocol(self) -> bool:
        """Whether the protocol of a version prevents reading it."""
        return self in (ProblemKind.UNSUPPORTED_PROTOCOL, ProblemKind.INVALID_PROTOCOL)

    @property
    def is_of_schema(self) -> bool:
        """Whether the schema of the latest version prevents reading its rows."""
        return self in (ProblemKind.BROKEN_SCHEMA, ProblemKind.UNSUPPORTED_TYPE_CHANGE)


_OF_ACCESS = (
    ProblemKind.NO_TABLE,
    ProblemKind.ACCESS_DENIED,
    ProblemKind.STORAGE_FAILED,
    ProblemKind.CATALOG_FAILED,
)
_FOUND_IN_COMMITS = (
    ProblemKind.EMPTY_COMMIT,  # it may have blank lines, which no listing shows
    ProblemKind.REPEATED_METADATA,
    ProblemKind.REPEATED_PROTOCOL,
    ProblemKind.REPEATED_TRANSACTION,
    ProblemKind.REPEATED_DOMAIN_METADATA,
    ProblemKind.REPEATED_ADD,
    ProblemKind.REPEATED_REMOVE,
    ProblemKind.CONTRADICTORY_COMMIT,
    ProblemKind.REPEATED_PARTITION_COLUMN,
    ProblemKind.DECREASING_TIMESTAMP,
    ProblemKind.FUTURE_TIMESTAMP,
    ProblemKind.INCOMPLETE_ENABLEMENT,
    ProblemKind.NEGATIVE_NUMBER,
)
_FOUND_IN_CHECKPOINTS = (
    ProblemKind.CORRUPT_CHECKPOINT,
    ProblemKind.WRONG_CHECKPOINT,
)


class Template(NamedTuple):
    """The severity and the texts of a kind, with places for facts in braces, see `Problem.text`.

    text, advice: empty: each problem has its own.
    reason: the expected and the found content, without the file.
    found_by: `Problem.check`; None: that which `Where.name` names, or nothing.
    """

    severity: Severity
    text: str
    advice: str
    reason: str = ""
    found_by: str | None = "log"


def _repeated(action: str, advice: str = "whether the last of these actions is the intended one.") -> Template:
    return Template(
        "warning",
        f"The {{at:commits}} in the log of {{table}} {{at:has|have}} more than one {action}. deltasnap uses the last "
        "one; other readers may use another.",
        f"Check the writer, and {advice}",
        f"expected at most one {action} in a commit",
    )


_OF_METADATA = "set the schema, the properties and the protocol of the table again."
_ENABLEMENT = "delta.inCommitTimestampEnablement"
_REFRESH = "Refresh the table, or start its sensor."

TEMPLATES: dict[ProblemKind, Template] = {
    ProblemKind.NO_TABLE: Template(
        "error",
        "No Delta table at {table}: {found}.",
        "Correct the path. If the table was dropped, remove it from the configuration.",
        "{found}",
    ),
    ProblemKind.ACCESS_DENIED: Template(
        "error",
        "Access to {place} is denied: {reason:.}",
        "Grant read access, or correct the credentials in storage_options.",
        "{reason}",
    ),
    ProblemKind.STORAGE_FAILED: Template(
        "error",
        "The storage failed at {place}: {reason:.}",
        "Try again later. If it fails again, check the path, storage_options and the network.",
        "{reason}",
    ),
    ProblemKind.CATALOG_FAILED: Template(
        "error",
        "catalog: {place}: {reason:.}",
        "Check the name, the keys of the catalog and the permissions there. If the catalog does not respond, the next "
        "poll tries again.",
        "{reason}",
    ),
    ProblemKind.MISSING_COMMIT: Template(
        "warning",
        "The {at:commits} {at:is|are} missing in the log of {table}: {lost:versions} cannot be loaded.",
        "Restore the missing commits from a backup of the log. If there is none, run `deltasnap repair TABLE`: every "
        "reader can then load the versions from a later stored one on.",
        "no such commit in the log, and no checkpoint replaces it",
    ),
    ProblemKind.UNNEEDED_COMMIT: Template(
        "warning",
        "The log lacks the commits of {at:versions}. No version that can be loaded needs them.",
        "Restore them from a backup of the log, if there is one.",
        "",
    ),
    ProblemKind.CORRUPT_COMMIT: Template(
        "warning",
        "Version {at} cannot be read: {place}: {reason:.}{also_lost}",
        "Restore this commit from a backup of the log. If there is none, run `deltasnap repair TABLE`, or restore the "
        "table to the version before it.",
        "{reason}",
    ),
    ProblemKind.EMPTY_COMMIT: Template(
        "warning",
        "The {at:commits} {at:is|are} empty (0 bytes, or only blank lines) in the log of {table}. A writer always "
        "records at least a commitInfo, so an upload failed, or the file was truncated. deltasnap treats it as a "
        "commit without changes.",
        "Restore the commit from a backup of the log, or check that the writer's last changes are in the table.",
        "a commit without any line of content",
    ),
    ProblemKind.MISSING_ACTION: Template(
        "error",
        "The log of {table} has no {action} action up to version {at}: the version cannot be read.",
        "Restore the first commit, or the checkpoint, from a backup of the log.",
        "no {action} action up to version {at}",
    ),
    ProblemKind.UNSUPPORTED_PROTOCOL: Template(
        "error",
        "{error}",
        "Upgrade to a release of deltasnap that supports the feature, or drop the feature (`ALTER TABLE ... DROP "
        "FEATURE`) for readers that do not support it.",
        "{needs}",
    ),
    ProblemKind.INVALID_PROTOCOL: Template(
        "error",
        "{error}",
        "Check the writer, and restore the commit or checkpoint with the protocol from a backup of the log.",
        "{needs}",
    ),
    ProblemKind.BROKEN_SCHEMA: Template(
        "error",
        "The schema of {table}{of_place} cannot be read: {reason:.} Its files can be counted, but its rows cannot be "
        "read.",
        "Restore the commit that wrote the schema from a backup of the log, or restore the table to the version before "
        "it.",
        "{reason}",
    ),
    ProblemKind.UNSUPPORTED_TYPE_CHANGE: Template(
        "error",
        "The schema of {table}{of_place} needs {change}, which deltasnap does not support. Its files can be counted, "
        "but its rows cannot be read.",
        "Upgrade to a release of deltasnap that supports the change, or drop the feature (`ALTER TABLE ... DROP "
        "FEATURE typeWidening`), which rewrites the files.",
        "unsupported: {change}",
    ),
    ProblemKind.CORRUPT_CHECKPOINT: Template(
        "warning",
        "The checkpoint of version {at} cannot be read: {name}: {reason:.} Nothing can replace it: {lost:versions} "
        "cannot be loaded.",
        "Restore the file from a backup of the log. If there is none, run `deltasnap repair TABLE`.",
        "{reason}",
    ),
    ProblemKind.WRONG_CHECKPOINT: Template(
        "warning",
        "The checkpoint of version {at} contradicts the stored version: {name} has {found} {found:file|files}, the "
        "stored version has {stored}. The store follows the commits. Readers of this checkpoint see {found} "
        "{found:file|files} and the later commits.",
        "If the log still has all commits since version 0, or since an older checkpoint, move this checkpoint out of "
        "_delta_log, and _last_checkpoint too if it names this version. Only then write a new checkpoint, with "
        "`deltasnap checkpoint PATH` or any Delta writer. Otherwise restore the checkpoint from a backup of the log.",
        "expected {stored:d} files, found {found:d}",
    ),
    ProblemKind.BROKEN_HINT: Template(
        "warning",
        "The hint _last_checkpoint is wrong: {reason}. {read}. Other readers may fail.",
        "Write a new checkpoint, which replaces the hint, or delete _last_checkpoint.",
        "{reason}",
    ),
    ProblemKind.WRONG_CHECKSUM: Template(
        "warning",
        "The log differs from the checksum of version {at}: {fields}.",
        "Trust the log, not the checksum: delete the `.crc` file, and upgrade the writer of that version.",
        "expected the values of the log: {fields}",
    ),
    ProblemKind.LOST_VERSIONS: Template(
        "warning",
        "{at:Versions} {at:is|are} gone from the log of {table}: {at:it was|they were} stored, and the log now ends "
        "with version {latest:d}.",
        "If the table was not rolled back or created again on purpose, restore the commits from a backup of the log. "
        "Otherwise no action is needed: this warning ends when the next version is stored.",
        "the log ends with version {latest:d}",
    ),
    ProblemKind.UNPUBLISHED_COMMIT: Template(
        "warning",
        "A catalog manages {table} and was not queried. The {at:commits} {at:is|are} staged, but not published: "
        "deltasnap shows version {latest:d}, and the catalog may have a later one.",
        "Have the writer or the catalog publish the commits that the catalog ratified. This warning ends when the log "
        "reaches these versions.",
        "the log ends with version {latest:d}",
    ),
    ProblemKind.REPEATED_METADATA: _repeated("metaData action", _OF_METADATA),
    ProblemKind.REPEATED_PROTOCOL: _repeated("protocol action", _OF_METADATA),
    ProblemKind.REPEATED_TRANSACTION: _repeated("txn action with the same appId"),
    ProblemKind.REPEATED_DOMAIN_METADATA: _repeated("domainMetadata action with the same domain"),
    ProblemKind.REPEATED_ADD: Template(
        "warning",
        "The {at:commits} in the log of {table} {at:adds|add} the same file more than once. deltasnap uses the last "
        "add, or with deletion vectors the last add of each vector. Other readers may use another add, or repeat the "
        "rows of the file.",
        "Check the writer, and whether the table has the rows of the file once. Then delete or insert them again.",
        "expected at most one add of a file in a commit",
    ),
    ProblemKind.REPEATED_REMOVE: Template(
        "warning",
        "The {at:commits} in the log of {table} {at:removes|remove} the same file more than once. deltasnap uses the "
        "last remove, or with deletion vectors the last remove of each vector. Other readers may reject the commit.",
        "Check the writer. The rows of the table do not depend on which remove a reader uses.",
        "expected at most one remove of a file in a commit",
    ),
    ProblemKind.CONTRADICTORY_COMMIT: Template(
        "warning",
        "The {at:commits} in the log of {table} {at:adds and removes|add and remove} the same file. deltasnap keeps "
        "the file; other readers may not.",
        "Check the writer, and whether the rows of the file belong to the table. Then insert or delete them again.",
        "expected at most one action of a file in a commit",
    ),
    ProblemKind.REPEATED_PARTITION_COLUMN: Template(
        "warning",
        "The metadata of {table} names the partition column {column} more than once. deltasnap uses it once; other "
        "readers may fail.",
        "Check the writer, and set the partition columns of the table again.",
        "expected each partition column once, found {columns}",
    ),
    ProblemKind.DECREASING_TIMESTAMP: Template(
        "warning",
        "The in-commit timestamp of {at:versions} in the log of {table} is earlier than that of the previous version. "
        "Time travel to a timestamp may fail.",
        "Use versions instead of timestamps, and check the clock and the version of the writer.",
        "expected in-commit timestamps that increase",
    ),
    ProblemKind.FUTURE_TIMESTAMP: Template(
        "warning",
        "The timestamp of {at:versions} in the log of {table} is in the future. Time travel to a timestamp finds "
        "neither this version nor later ones.",
        "Use versions instead of timestamps, and correct the clock of the writer. Without in-commit timestamps, also "
        "correct the modification time of the commit.",
        "expected timestamps up to now",
    ),
    ProblemKind.INCOMPLETE_ENABLEMENT: Template(
        "warning",
        f"{{table}} has only one of the table properties {_ENABLEMENT}Version and {_ENABLEMENT}Timestamp. Other "
        "readers may reject time travel to a timestamp.",
        "Set both properties to the first version with in-commit timestamps and to its timestamp.",
        "expected both properties or none",
    ),
    ProblemKind.NEGATIVE_NUMBER: Template(
        "warning",
        "Files of {at:versions} in the log of {table} have a negative size, number of records or number of deleted "
        "rows, or more deleted rows than records. The sizes and numbers of rows of the table are wrong.",
        "Check the writer, and rewrite the files, for example with OPTIMIZE.",
        "expected sizes and numbers of rows of at least 0",
    ),
    ProblemKind.FAILED_CHECK: Template("warning", "", "", found_by=None),
    ProblemKind.UNREAD_FACTS: Template("error", "{error}", "Refresh the table to retry.", found_by="checks"),
    ProblemKind.FAILED_RUN: Template(
        "warning",
        "The last run failed: {reason:.}",
        "Refresh the table to materialize missing versions and evaluate the checks again.",
        "{reason}",
        found_by="run",
    ),
    ProblemKind.NO_WANTED_VERSION: Template(
        "warning",
        "{reason}",
        "Correct `versions` in the configuration, or wait for this version.",
        found_by="versions",
    ),
    ProblemKind.STALE: Template(
        "stale",
        "The last commit is {age} old, at most {patience} expected.",
        "Check the job that writes the table. If it writes rarely on purpose, raise `fresh_within_hours` in the checks "
        "of the table.",
        found_by="fresh_table",
    ),
    ProblemKind.FUTURE_COMMIT: Template(
        "warning",
        "The time of the last commit is {age} in the future.",
        "Correct the clock of the writer.",
        found_by="fresh_table",
    ),
    ProblemKind.DAMAGED_STORE: Template(
        "error", "Corrupt snapshot store file {place}: {reason:.}", "", "{reason}", found_by="store"
    ),
    ProblemKind.LOST_MANIFEST: Template(
        "error",
        "Version {at} was stored, but its manifest is gone from the store.",
        "Refresh the table: this stores the version again, if its log still has it.",
        found_by="store",
    ),
    ProblemKind.LOST_FILES: Template(
        "error",
        "Stored versions cannot be read, and the log no longer has them: {at}. {reason:.}",
        "Restore the file from a backup.",
        found_by="stored_versions",
    ),
    ProblemKind.UNSHARED_STORE: Template(
        "warning",
        "Runs store their versions elsewhere: their processes do not share the folder of the store.",
        "Set `storage` to a folder or bucket that the daemon, the code location and all runs share.",
        found_by="unshared_store",
    ),
    ProblemKind.UNREADABLE_STORE: Template(
        "unknown",
        "The store of this table cannot be read: {error}",
        "Grant access to the table's folder in the store, or try again later.",
        found_by="store",
    ),
    ProblemKind.LATER_STORE: Template(
        "unknown",
        "{error}",
        "Upgrade deltasnap: a later release stored the newest version of this table.",
        found_by="store",
    ),
    ProblemKind.DAMAGED_STATUS: Template(
        "unknown",
        "The last poll of this table cannot be read: {place}: {reason}",
        "Refresh the table: this writes the file again.",
        found_by="store",
    ),
    ProblemKind.LOST_STATUS: Template(
        "unknown",
        "Versions of this table were materialized, but the store has no record of it.",
        "Check that `storage` is the right store and was not deleted. Then refresh the table.",
        found_by=None,
    ),
    ProblemKind.OTHER_TABLE: Template(
        "unknown",
        "The store has another table of this name, at {place}.",
        "Refresh the table. If that fails, give one of the two tables another name or another store.",
        found_by="path",
    ),
    ProblemKind.NEVER_POLLED: Template(
        "unknown", "deltasnap has not read the log of this table yet.", _REFRESH, found_by=None
    ),
    ProblemKind.OLD_POLL: Template(
        "unknown", "deltasnap last read the log of this table {age} ago.", _REFRESH, found_by=None
    ),
    ProblemKind.FUTURE_POLL: Template(
        "unknown",
        "The time of the last poll of this table is {age} in the future: a clock was wrong.",
        _REFRESH,
        found_by=None,
    ),
    ProblemKind.OLD_EXAMINATION: Template(
        "unknown", "deltasnap last checked the log of this table for damage {age} ago.", _REFRESH, found_by=None
    ),
    ProblemKind.NEVER_CHECKED: Template(
        "unknown", "No run has checked this table yet.", "Refresh the table.", found_by=None
    ),
    ProblemKind.UNCHECKED_VERSIONS: Template(
        "unknown",
        "No run has checked this table for {age}, and it has new versions.",
        "Refresh the table.",
        found_by=None,
    ),
    ProblemKind.NOT_FOLLOWED: Template("unknown", "This table is not followed: {reason}.", "", found_by=None),
    ProblemKind.LOST_TABLE: Template(
        "warning",
        "This table is in the store, but {place} is no longer a Delta table and is not followed.",
        "Restore its log. If the table was dropped, delete its folder from the store.",
        found_by=None,
    ),
}

_REPLACED_COMMIT = "A checkpoint replaces it: no version is lost, but its history and its changes are."
_RESTORE_COMMIT = "Restore this commit from a backup of the log, if there is one."

WITHOUT_LOSS: dict[ProblemKind, Template] = {
    ProblemKind.MISSING_COMMIT: Template(
        "warning",
        f"The {{at:commits}} is missing in the log of {{table}}. {_REPLACED_COMMIT}",
        _RESTORE_COMMIT,
        "no such commit in the log",
    ),
    ProblemKind.CORRUPT_COMMIT: Template(
        "warning",
        f"The commit of version {{at}} cannot be read: {{place}}: {{reason:.}} {_REPLACED_COMMIT}",
        _RESTORE_COMMIT,
        "{reason}",
    ),
    ProblemKind.CORRUPT_CHECKPOINT: Template(
        "warning",
        "The checkpoint of version {at} cannot be read: {name}: {reason:.} {read}. Other readers that use this "
        "checkpoint fail.",
        "Move the damaged checkpoint out of _delta_log, and _last_checkpoint too if it names this version. Then write "
        "a new checkpoint (`deltasnap checkpoint PATH`, or any Delta writer).",
        "{reason}",
    ),
}
"""The templates of damaged files that keep no version from loading."""
