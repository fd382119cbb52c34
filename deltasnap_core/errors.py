"""Every error that deltasnap raises on purpose, with its data as attributes.

    DeltaSnapError
    ├── DeltaTableNotFoundError       there is no Delta table at the path
    ├── VersionNotFoundError          the table has no such version
    ├── TimestampNotFoundError        no version of the table exists at that time
    ├── VersionGapError               commits needed for a version are missing from the log
    ├── ActionNotFoundError           a version has no protocol or no metadata
    ├── UnsupportedProtocolError      a version needs features that deltasnap does not support
    ├── UnsupportedWriterError        a checkpoint needs writer features that deltasnap does not support
    ├── ProtectedVersionError         the table forbids a checkpoint of that version
    ├── CheckpointMismatchError       a new checkpoint differs from its version when read back
    ├── RepairRefusedError            a damaged log cannot be repaired from the snapshot store
    ├── CorruptLogError               a file of the log is damaged
    ├── StorageError                  a file or folder cannot be reached, read or written (also an OSError)
    │   ├── NoFilesystemError         fsspec does not support the protocol, or its package is missing
    │   └── CatalogError              a catalog has no such Delta table, or cannot be reached
    ├── LogChangedError               the log was replaced while it was read
    ├── DataPathError                 the log names a data file or deletion vector that must not be opened
    ├── DataFileError                 Spark cannot read a data file
    ├── DataFileNotFoundError         a data file or deletion vector of a version is missing
    ├── RowChangesError               the row changes of a version cannot be read
    ├── PredicateError                a predicate is invalid, or fails for some row (also a ValueError)
    ├── StoredVersionNotFoundError    the snapshot store does not have that version
    ├── StoreChangedError             another run changed the snapshot store during a write
    ├── CorruptStoreError             a file of the snapshot store is damaged
    ├── UnsupportedStoreError         a later release of deltasnap wrote a file of the snapshot store
    ├── SparkRequiredError            the operation needs Spark, and there is no session
    ├── MissingPackageError           an optional package is not installed (also an ImportError)
    ├── UnsupportedServerError        the Spark Connect server does not support the operation
    └── UnsupportedSettingError       a setting of the Spark session prevents the operation

Messages and reasons never contain credentials: the base class removes them (`redaction`). Other attributes, such as
paths, are not changed.
Wrong arguments raise ValueError. Except for predicates, that is not a DeltaSnapError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted


class DeltaSnapError(Exception):
    """The base of every error in this module."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(arg) if isinstance(arg, str) else arg for arg in args))
        if isinstance(reason := getattr(self, "reason", None), str):
            self.reason = redacted(reason)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form, which restores the error without `__init__`: its arguments are keyword-only."""
        return _restore, (type(self), self.args, dict(vars(self)))


def _restore(cls: type[DeltaSnapError], args: tuple[Any, ...], attributes: dict[str, Any]) -> DeltaSnapError:
    error = cls.__new__(cls)
    error.args = args  # set here, because OSError.__new__ does not set them
    vars(error).update(attributes)
    return error


class DeltaTableNotFoundError(DeltaSnapError):
    """There is no Delta table at `path`: no log folder, or no commit and no checkpoint in it."""

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(f"No Delta table found at {path}: expected commits or a checkpoint in its _delta_log folder.")


class VersionNotFoundError(DeltaSnapError):
    """The table at `path` has no `version`.

    It has versions from `earliest` to `latest` (None: unknown), perhaps with gaps.
    available: the versions that can be loaded, as text; None: all from `earliest` to `latest`.
    """

    def __init__(
        self,
        *,
        path: str,
        version: int,
        earliest: int | None = None,
        latest: int | None = None,
        available: str | None = None,
    ) -> None:
        self.path = path
        self.version = version
        self.earliest = earliest
        self.latest = latest
        available = _range_text(earliest, latest, str) if available is None else available
        super().__init__(f"Version {version} of the Delta table at {path} does not exist. Available: {available}.")


class TimestampNotFoundError(DeltaSnapError):
    """The table at `path` has no version at `timestamp_ms`. Its commits lie between `earliest_ms` and `latest_ms`."""

    def __init__(
        self, *, path: str, timestamp_ms: int, earliest_ms: int | None = None, latest_ms: int | None = None
    ) -> None:
        self.path = path
        self.timestamp_ms = timestamp_ms
        self.earliest_ms = earliest_ms
        self.latest_ms = latest_ms
        available = _range_text(earliest_ms, latest_ms, _time_text)
        super().__init__(
            f"The Delta table at {path} has no version as of {_time_text(timestamp_ms)}. Available: {available}."
        )


class VersionGapError(DeltaSnapError):
    """Loading `version` of the table at `path` needs the commits `missing`, which are not in its log.

    missing: the versions, ascending, stored as ranges (`missing.runs`). Use the ranges or a slice: file names alone
             determine the width of a gap, which may be 2**62 versions.
    """

    def __init__(self, *, path: str, version: int, missing: Iterable[int]) -> None:
        self.path = path
        self.version = version
        self.missing = VersionRanges.of(missing)
        word = "version" if len(self.missing) == 1 else "versions"
        super().__init__(
            f"Version {version} of the Delta table at {path} cannot be loaded: "
            f"its log has no commit for {word} {self.missing.text()}, and no checkpoint replaces it."
        )


class ActionNotFoundError(DeltaSnapError):
    """`version` of the table at `path` has no `action`, which is "protocol" or "metadata"."""

    def __init__(self, *, action: Literal["protocol", "metadata"], version: int, path: str) -> None:
        self.action = action
        self.version = version
        self.path = path
        super().__init__(
            f"Version {version} of the Delta table at {path} cannot be read: its log has no {action} action. "
            "Restore the first commit, or the checkpoint, from a backup of the log."
        )


class UnsupportedProtocolError(DeltaSnapError):
    """Reading `version` (None: unknown) of the table at `path` needs features that deltasnap does not support.

    features: the unsupported reader features; empty if only `min_reader_version` is too new.
    part:     the part of a supported feature that is not supported, and its place in the log; None: no part is.
    invalid:  why nobody knows which features the protocol needs, such as `reader version 3 without readerFeatures`;
              None: its fields agree.
    """

    def __init__(
        self,
        *,
        path: str,
        version: int | None,
        features: tuple[str, ...],
        min_reader_version: int,
        part: str | None = None,
        invalid: str | None = None,
    ) -> None:
        self.path = path
        self.version = version
        self.features = features
        self.min_reader_version = min_reader_version
        self.part = part
        self.invalid = invalid
        needs = f"the reader features {', '.join(features)}" if features else f"reader version {min_reader_version}"
        needs = needs if part is None else part
        problem = f"needs {needs}, which deltasnap does not support"
        if invalid is not None:
            problem = f"has an invalid protocol: {invalid}"
        which = "A version" if version is None else f"Version {version}"
        super().__init__(f"{which} of the Delta table at {path} {problem}.")


class UnsupportedWriterError(DeltaSnapError):
    """A checkpoint of `version` of the table at `path` needs writer features that deltasnap does not support.

    features: the unsupported writer features; empty if only `min_writer_version` is too new.
    """

    def __init__(self, *, path: str, version: int, features: tuple[str, ...], min_writer_version: int) -> None:
        self.path = path
        self.version = version
        self.features = features
        self.min_writer_version = min_writer_version
        needs = f"the writer features {', '.join(features)}" if features else f"writer version {min_writer_version}"
        super().__init__(
            f"A checkpoint of version {version} of the Delta table at {path} needs {needs}, which deltasnap does not "
            "support. Nothing was written."
        )


class ProtectedVersionError(DeltaSnapError):
    """The table at `path` forbids new checkpoints below the version `protected_before`; `version` is below it.

    Source: PROTOCOL.md, Checkpoint Protection.
    """

    def __init__(self, *, path: str, version: int, protected_before: int) -> None:
        self.path, self.version, self.protected_before = path, version, protected_before
        super().__init__(
            f"The Delta table at {path} forbids a checkpoint of version {version}: its property "
            f"delta.requireCheckpointProtectionBeforeVersion is {protected_before}. Nothing was written."
        )


class CheckpointMismatchError(DeltaSnapError):
    """A new checkpoint of the table at `path` differs from `version` when read back. It was deleted.

    differences: each as `name: expected ..., found ...`.
    """

    def __init__(self, *, path: str, version: int, differences: tuple[str, ...]) -> None:
        self.path, self.version, self.differences = path, version, differences
        super().__init__(
            f"The new checkpoint of version {version} of the Delta table at {path} differs from the version when read "
            f"back: {'; '.join(differences)}. The checkpoint was deleted, and the table is unchanged."
        )


class RepairRefusedError(DeltaSnapError):
    """The log of the table at `path` cannot be repaired. reason, advice: why, and what can be done by hand."""

    def __init__(self, *, path: str, reason: str, advice: str) -> None:
        self.path, self.reason, self.advice = path, reason, advice
        super().__init__(f"The log of the Delta table at {path} cannot be repaired: {reason} {advice}".strip())


class CorruptLogError(DeltaSnapError):
    """The file `path` of a Delta log is damaged. line: from 1; None: the whole file. reason: what is wrong."""

    def __init__(self, *, path: str, reason: str, line: int | None = None) -> None:
        self.path = path
        self.reason = reason
        self.line = line
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"Corrupt Delta log file {where}: {reason}")


class StorageError(DeltaSnapError, OSError):
    """The file or folder `path` cannot be reached, read or written. reason: the message of the storage.

    Neither contains credentials. is_transient: whether it may be over in a minute, such as throttling or a timeout.

    A missing file is not a StorageError: the caller gets FileNotFoundError and decides what it means.
    """

    def __init__(self, *, path: str, reason: str, is_transient: bool = False) -> None:
        self.path = redacted(path)
        self.reason = reason
        self.is_transient = is_transient
        super().__init__(f"The storage failed at {path}: {reason}")


class NoFilesystemError(StorageError):
    """No filesystem supports URLs such as `path`: fsspec lacks the protocol, or its package is not installed."""

    @property
    def advice(self) -> str:
        """What to do."""
        if isinstance(self.__cause__, ImportError):  # the reason names the package
            return "If the path has the wrong scheme, correct it."
        return "Correct the scheme of the path or the storage options, or install the package of the filesystem."


class CatalogError(StorageError):
    """A catalog cannot tell where the Delta table `path`, its name, is. reason: a clause that says why."""

    def __init__(self, *, table: str, reason: str, is_transient: bool = False) -> None:
        self.path = redacted(table)
        self.reason = reason
        self.is_transient = is_transient
        DeltaSnapError.__init__(self, f"Table {table} of the catalog: {reason.rstrip('.')}.")


class LogChangedError(DeltaSnapError):
    """The log at `path` was replaced while it was read: its file `file` has changed. A retry may succeed."""

    def __init__(self, *, path: str, file: str, expected: str, found: str) -> None:
        self.path = path
        self.file = file
        self.expected = expected
        self.found = found
        super().__init__(
            f"The Delta log at {path} was replaced while it was read: {file}: expected {expected}, found {found}. "
            "Nothing was stored; try again."
        )


class DataPathError(DeltaSnapError):
    """The log of the table at `table` names `path`, a file that must not be opened. reason: why."""

    def __init__(self, *, path: str, table: str, reason: str) -> None:
        self.path = path
        self.table = table
        self.reason = reason
        super().__init__(
            f"The log of the Delta table at {table} names {path}, which deltasnap does not open: {reason}."
        )


class DataFileError(DeltaSnapError):
    """Spark cannot read the data file `path` of `version` of the table at `table`. None: unknown.

    reason: the cause, such as a damaged file, a column of another type than in the table, or text that is not UTF-8.
    """

    def __init__(self, *, path: str | None, table: str | None, version: int | None, reason: str) -> None:
        self.path = path
        self.table = table
        self.version = version
        self.reason = reason
        which = "a version" if version is None else f"version {version}"
        file = "a data file" if path is None else f"the data file {path}"
        place = "a Delta table" if table is None else f"the Delta table at {table}"
        super().__init__(f"Spark cannot read {file} of {which} of {place}: {reason}")


class DataFileNotFoundError(DeltaSnapError):
    """The file `path` of `version` (None: unknown) of the table at `table` is missing.

    missing: the number of missing files.
    """

    def __init__(self, *, path: str, table: str, version: int | None, missing: int = 1) -> None:
        self.path = path
        self.table = table
        self.version = version
        self.missing = missing
        which = "A version" if version is None else f"Version {version}"
        others = f" and {missing - 1} more" if missing > 1 else ""
        super().__init__(
            f"{which} of the Delta table at {table} needs the file {path}{others}, which {'are' if others else 'is'} "
            f"missing: VACUUM or a user may have removed {'them' if others else 'it'}."
        )


class RowChangesError(DeltaSnapError):
    """The row changes of `version` of the table at `path` cannot be read with the other requested ones. reason: why."""

    def __init__(self, *, path: str, version: int, reason: str) -> None:
        self.path = path
        self.version = version
        self.reason = reason
        super().__init__(f"The row changes of version {version} of the Delta table at {path} cannot be read: {reason}.")


class PredicateError(DeltaSnapError, ValueError):
    """`predicate` is not a valid condition on the columns of the table, or fails for some row. reason: why.

    position: the position in the text, from 0; None: unknown.
    """

    def __init__(self, *, predicate: str, position: int | None, reason: str) -> None:
        self.predicate = predicate
        self.position = position
        self.reason = reason
        super().__init__(f"Invalid predicate: {reason}\n{_marked(predicate, position)}")


class StoredVersionNotFoundError(DeltaSnapError):
    """The snapshot store at `store` has no complete `version` of `table` (version None: no version at all)."""

    def __init__(self, *, store: str, table: str, version: int | None) -> None:
        self.store = store
        self.table = table
        self.version = version
        what = "no version" if version is None else f"no version {version}"
        super().__init__(f"The snapshot store at {store} has {what} of table {table}.")


class StoreChangedError(DeltaSnapError):
    """Another run or `prune` changed the stored versions of `table` that a write built on. A retry may succeed.

    reason: what changed.
    """

    def __init__(self, *, store: str, table: str, reason: str) -> None:
        self.store = store
        self.table = table
        self.reason = reason
        super().__init__(
            f"The snapshot store at {store} changed while versions of table {table} were written: {reason}. "
            "Nothing was stored; try again."
        )


class CorruptStoreError(DeltaSnapError):
    """The file or folder `path` of a snapshot store is damaged.

    reason: what is wrong. advice: what to do, in sentences; empty: unknown.
    """

    def __init__(self, *, path: str, reason: str, advice: str = "") -> None:
        self.path = path
        self.reason = reason
        self.advice = advice
        super().__init__(f"Corrupt snapshot store file {path}: {reason}{advice and f'. {advice}'}")


class UnsupportedStoreError(DeltaSnapError):
    """A later release of deltasnap wrote the file `path` of a snapshot store. It is never replaced.

    found: the format of the file. supported: the latest format that this release reads.
    """

    def __init__(self, *, path: str, found: int, supported: int) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        super().__init__(
            f"The snapshot store file {path} has format {found}, but this release of deltasnap reads only formats up "
            f"to {supported}. Upgrade deltasnap."
        )


class SparkRequiredError(DeltaSnapError):
    """The operation, `reason`, needs Spark. failure: why Spark did not start; None: no session was given."""

    def __init__(self, *, reason: str, failure: str | None = None) -> None:
        self.reason = reason
        self.failure = failure
        if failure is None:
            text = f"Spark is required, but no session was given: {reason}. Pass a Spark session."
        else:
            advice = "Install Java 17 or later, or pass a Spark session."
            text = f"Spark did not start: {failure} It is required for this: {reason}. {advice}"
        super().__init__(text)


class MissingPackageError(DeltaSnapError, ImportError):
    """The optional package `package` is not installed. work: what needs it."""

    def __init__(self, *, package: str, work: str) -> None:
        self.package = package
        self.work = work
        super().__init__(f"The package {package} is not installed, which {work} needs: pip install {package}.")


class UnsupportedServerError(DeltaSnapError):
    """This Spark cannot do the `work`: it is an old version, or not Apache Spark. reason: why."""

    def __init__(
        self, *, work: str, reason: str, server: str = "The Spark Connect server", needed: str = "Apache Spark"
    ) -> None:
        self.work = work
        self.reason = reason
        super().__init__(f"{server} cannot {work}: {reason}. Use {needed}.")


class UnsupportedSettingError(DeltaSnapError):
    """A setting of the Spark session prevents the operation. setting: its name and value. reason: why."""

    def __init__(self, *, setting: str, reason: str) -> None:
        self.setting = setting
        self.reason = reason
        super().__init__(f"The setting {setting} of the Spark session is not supported: {reason}. Change it.")


def one_line(text: object) -> str:
    """Return a text, such as the message of an error, without line breaks and repeated spaces."""
    return " ".join(str(text).split())


_MAX_SHOWN = 2_000


def _marked(text: str, position: int | None) -> str:
    """Return a text with a caret below the character at a position. A long text is cut to the part around it."""
    if len(text) > _MAX_SHOWN:
        first = max((position or 0) - _MAX_SHOWN // 2, 0)
        text = text[first : first + _MAX_SHOWN]
        position = None if position is None else position - first
    if position is None:
        return text
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    return f"{text[:end]}\n{' ' * (position - begin)}^{text[end:]}"


def _time_text(timestamp_ms: int) -> str:
    try:
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)  # exact, unlike a float
        return time.isoformat(timespec="milliseconds")
    except OverflowError:  # far outside the calendar: manipulated modification times
        return f"{timestamp_ms} ms since the epoch"


def _range_text(first: int | None, last: int | None, text: Callable[[int], str]) -> str:
    if first is None and last is None:
        return "unknown"
    return f"{'?' if first is None else text(first)} to {'?' if last is None else text(last)}"
