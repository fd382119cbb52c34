"""The faults of a table that cannot be reached, or does not exist."""

from __future__ import annotations

import re

from deltasnap_core.errors import CatalogError, NoFilesystemError, StorageError, one_line
from deltasnap_core.log.condition.problem import Problem, Where
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER
from deltasnap_core.ranges import NO_VERSIONS, VersionRanges
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.urls import join_url

_DENIED = re.compile(
    r"(?i)permission denied|access ?denied|forbidden|unauthori[sz]ed|not authori[sz]ed|\b40[13]\b|credential"
    r"|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|authenticat|authori[sz]ation"
)
_OF_ARGUMENTS = (AttributeError, TypeError, ValueError)
"""The exceptions of filesystems for an unknown option, or an option or a bucket name with an invalid value."""


def storage_fault(error: StorageError, versions: VersionRanges = NO_VERSIONS) -> Problem:
    """Return the fault for a storage error of a file or folder. versions: begin with the one of the file."""
    is_denied = isinstance(error.__cause__, PermissionError) or _DENIED.search(error.reason) is not None
    kind = ProblemKind.ACCESS_DENIED if is_denied else ProblemKind.STORAGE_FAILED
    kind = ProblemKind.CATALOG_FAILED if isinstance(error, CatalogError) else kind
    facts = {"reason": one_line(error.reason)}
    if isinstance(error, NoFilesystemError):
        facts["advice"] = error.advice
    elif isinstance(error.__cause__, _OF_ARGUMENTS):
        facts["advice"] = "Correct the path or storage_options: the filesystem does not accept one of their values."
    return Problem.of(kind, Where.of(error.path, *versions[:1]), versions, **facts)


def no_table(store: LogStore, table: str) -> Problem:
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
        return Problem.of(ProblemKind.NO_TABLE, table=table, found="there is no such folder")
    return Problem.of(ProblemKind.NO_TABLE, table=table, found=found, advice=advice)


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
