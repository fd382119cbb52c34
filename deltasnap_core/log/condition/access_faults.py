"""The faults of a table that cannot be reached, or does not exist."""

from __future__ import annotations

import re

from deltasnap_core.errors import NoFilesystemError, StorageError, one_line
from deltasnap_core.log.condition.fault import Fault, FaultKind
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.urls import join_url

_DENIED = re.compile(
    r"(?i)permission denied|access ?denied|forbidden|unauthori[sz]ed|not authori[sz]ed|\b40[13]\b|credential"
    r"|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|authenticat|authori[sz]ation"
)
_OF_ARGUMENTS = (AttributeError, TypeError, ValueError)
"""The exceptions of filesystems for an unknown option, or an option or a bucket name with an invalid value."""


def storage_fault(error: StorageError, versions: VersionRanges | None = None) -> Fault:
    """Return the fault for a storage error of a file or folder."""
    is_denied = isinstance(error.__cause__, PermissionError) or _DENIED.search(error.reason) is not None
    path, reason = redacted(error.path), redacted(one_line(error.reason))
    if is_denied:
        kind, text = FaultKind.ACCESS_DENIED, f"Access to {path} is denied: {reason}"
        advice = "Grant read access, or correct the credentials in storage_options."
    else:
        kind, text = FaultKind.STORAGE_FAILED, f"The storage failed at {path}: {reason}"
        advice = "Try again later. If it fails again, check the path, storage_options and the network."
    if isinstance(error, NoFilesystemError):
        advice = error.advice
    elif isinstance(error.__cause__, _OF_ARGUMENTS):
        advice = "Correct the path or storage_options: the filesystem does not accept one of their values."
    text = text if text.endswith(".") else f"{text}."
    return Fault(kind=kind, text=text, advice=advice, file=path, reason=reason, versions=versions or VersionRanges())


def no_table(store: LogStore, table: str) -> Fault:
    """Return the fault of a path without a Delta table. It names what the path contains instead."""
    if table.rstrip("/").endswith(f"/{LOG_FOLDER}"):
        found, advice = "the path names a log folder", f"Use the table's folder, without {LOG_FOLDER}."
    elif _is_folder(store, join_url(table, LOG_FOLDER)):
        found = f"its {LOG_FOLDER} has neither a commit nor a checkpoint"
        advice = "Restore the log from a backup, or correct the path."
    elif _is_folder(store, table):
        found = f"the folder has no {LOG_FOLDER}"
        advice = "Correct the path, or create the table."
    elif _is_file(store, table):
        found, advice = "the path names a file", "Use the folder of a table."
    else:
        found = "there is no such folder"
        advice = "Correct the path. If the table was dropped, remove it from the configuration."
    return Fault(
        kind=FaultKind.NO_TABLE, text=f"No Delta table at {redacted(table)}: {found}.", advice=advice, reason=found
    )


def _is_file(store: LogStore, path: str) -> bool:
    try:
        return store.status(path) is not None
    except StorageError:
        return False


def _is_folder(store: LogStore, path: str) -> bool:
    try:
        store.list_from(f"{path}/")
    except (FileNotFoundError, StorageError):
        return False
    return True
