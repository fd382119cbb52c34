"""deltasnap_core: Delta Lake transaction logs read with plain PySpark.

    from deltasnap_core import DeltaLog

    log = DeltaLog.for_table(spark, "/data/events")
    log.snapshot.all_files, log.get_snapshot_at(version=12).computed_state, log.history.get_history(limit=10)

The names below are resolved at first use: importing the package, or one of its pure modules, loads no PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltasnap_core.errors import (
        ActionNotFoundError,
        CorruptLogError,
        CorruptStoreError,
        DataFileNotFoundError,
        DataPathError,
        DeltaSnapError,
        DeltaTableNotFoundError,
        PredicateError,
        StoredVersionNotFoundError,
        TimestampNotFoundError,
        UnsupportedProtocolError,
        VersionGapError,
        VersionNotFoundError,
    )
    from deltasnap_core.log.delta_history_manager import DeltaHistory, DeltaHistoryManager
    from deltasnap_core.log.log_segment import LogSegment
    from deltasnap_core.log.table_log import TableLog
    from deltasnap_core.log.version_log import VersionLog
    from deltasnap_core.protocol.actions import (
        AddFile,
        CommitInfo,
        DomainMetadata,
        Format,
        Metadata,
        Protocol,
        RemoveFile,
        SetTransaction,
    )
    from deltasnap_core.protocol.snapshot_state import SnapshotState
    from deltasnap_core.protocol.version_checksum import VersionChecksum
    from deltasnap_core.scan.file_changes import ChangeSummary, FileChanges
    from deltasnap_core.scan.metadata_tables import MetadataTables
    from deltasnap_core.scan.options import ScanOptions
    from deltasnap_core.scan.planning import ScanReport
    from deltasnap_core.scan.scan import Scan
    from deltasnap_core.snapshot.checksum_validation import ChecksumDifference
    from deltasnap_core.snapshot.delta_log import DeltaLog
    from deltasnap_core.snapshot.initial_snapshot import InitialSnapshot
    from deltasnap_core.snapshot.options import SnapshotOptions
    from deltasnap_core.snapshot.snapshot import Snapshot
    from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
    from deltasnap_core.storage.log_store import FileStatus, LogStore
    from deltasnap_core.store.snapshot_store import SnapshotStore

_MODULES = {
    "errors": (
        "ActionNotFoundError",
        "CorruptLogError",
        "CorruptStoreError",
        "DataFileNotFoundError",
        "DataPathError",
        "DeltaSnapError",
        "DeltaTableNotFoundError",
        "PredicateError",
        "StoredVersionNotFoundError",
        "TimestampNotFoundError",
        "UnsupportedProtocolError",
        "VersionGapError",
        "VersionNotFoundError",
    ),
    "log.delta_history_manager": ("DeltaHistory", "DeltaHistoryManager"),
    "log.log_segment": ("LogSegment",),
    "log.table_log": ("TableLog",),
    "log.version_log": ("VersionLog",),
    "protocol.actions": (
        "AddFile",
        "CommitInfo",
        "DomainMetadata",
        "Format",
        "Metadata",
        "Protocol",
        "RemoveFile",
        "SetTransaction",
    ),
    "protocol.version_checksum": ("VersionChecksum",),
    "protocol.snapshot_state": ("SnapshotState",),
    "scan.file_changes": ("ChangeSummary", "FileChanges"),
    "scan.metadata_tables": ("MetadataTables",),
    "scan.options": ("ScanOptions",),
    "scan.planning": ("ScanReport",),
    "scan.scan": ("Scan",),
    "snapshot.checksum_validation": ("ChecksumDifference",),
    "snapshot.delta_log": ("DeltaLog",),
    "snapshot.initial_snapshot": ("InitialSnapshot",),
    "snapshot.options": ("SnapshotOptions",),
    "snapshot.snapshot": ("Snapshot",),
    "storage.fsspec_log_store": ("FsspecLogStore",),
    "storage.log_store": ("FileStatus", "LogStore"),
    "store.snapshot_store": ("SnapshotStore",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

# In full, not from the mapping above: type checkers read it.
__all__ = [
    "ActionNotFoundError",
    "AddFile",
    "ChangeSummary",
    "ChecksumDifference",
    "CommitInfo",
    "CorruptLogError",
    "CorruptStoreError",
    "DataFileNotFoundError",
    "DataPathError",
    "DeltaHistory",
    "DeltaHistoryManager",
    "DeltaLog",
    "DeltaSnapError",
    "DeltaTableNotFoundError",
    "DomainMetadata",
    "FileChanges",
    "FileStatus",
    "Format",
    "FsspecLogStore",
    "InitialSnapshot",
    "LogSegment",
    "LogStore",
    "Metadata",
    "MetadataTables",
    "PredicateError",
    "Protocol",
    "RemoveFile",
    "Scan",
    "ScanOptions",
    "ScanReport",
    "SetTransaction",
    "Snapshot",
    "SnapshotOptions",
    "SnapshotState",
    "SnapshotStore",
    "StoredVersionNotFoundError",
    "TableLog",
    "TimestampNotFoundError",
    "UnsupportedProtocolError",
    "VersionChecksum",
    "VersionGapError",
    "VersionLog",
    "VersionNotFoundError",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
