"""deltasnap_core: reads Delta Lake transaction logs with plain PySpark.

    from deltasnap_core import DeltaLog

    log = DeltaLog.for_table(spark, "/data/events")
    log.snapshot.all_files, log.get_snapshot_at(version=12).computed_state, log.history.get_history(limit=10)

The names below are imported on first use: importing the package, or one of its pure modules, does not load PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltasnap_core.clock import milliseconds, system_clock
    from deltasnap_core.distribution import DISTRIBUTION, how_to_install
    from deltasnap_core.errors import (
        ActionNotFoundError,
        CheckpointMismatchError,
        CorruptLogError,
        CorruptStoreError,
        DataFileError,
        DataFileNotFoundError,
        DataPathError,
        DeltaSnapError,
        DeltaTableNotFoundError,
        LogChangedError,
        NoFilesystemError,
        PredicateError,
        ProtectedVersionError,
        RowChangesError,
        SparkRequiredError,
        StorageError,
        StoreChangedError,
        StoredVersionNotFoundError,
        TimestampNotFoundError,
        UnsupportedProtocolError,
        UnsupportedServerError,
        UnsupportedSettingError,
        UnsupportedStoreError,
        UnsupportedWriterError,
        VersionGapError,
        VersionNotFoundError,
    )
    from deltasnap_core.log.checksum_file import read_checksum
    from deltasnap_core.log.checksum_validation import ChecksumDifference, compare_with_log
    from deltasnap_core.log.commits.commit_batch import ChangedFile
    from deltasnap_core.log.commits.commit_reader import read_commits
    from deltasnap_core.log.commits.commit_summary import CommitSummary
    from deltasnap_core.log.condition.commit_findings import CommitFindings
    from deltasnap_core.log.condition.loadable_versions import SoundVersion
    from deltasnap_core.log.condition.problem import Problem, Where
    from deltasnap_core.log.condition.problem_kinds import ProblemKind
    from deltasnap_core.log.condition.table_condition import TableCondition
    from deltasnap_core.log.history.delta_history_manager import DeltaHistory, DeltaHistoryManager
    from deltasnap_core.log.listing.catalog_commits import CatalogCommits
    from deltasnap_core.log.listing.log_listing import LogListing
    from deltasnap_core.log.listing.log_segment import LogSegment
    from deltasnap_core.log.polling.log_poll import LogCursor, LogPoll, LogStatus
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
    from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER, checkpoint_file, commit_file
    from deltasnap_core.protocol.properties.table_config import (
        column_mapping_mode,
        deleted_file_retention_ms,
        in_commit_timestamps_enabled,
        target_file_size_bytes,
    )
    from deltasnap_core.protocol.schema_text import PHYSICAL_NAME
    from deltasnap_core.protocol.state.file_size_histogram import FileSizeHistogram
    from deltasnap_core.protocol.state.snapshot_state import SnapshotState
    from deltasnap_core.protocol.state.version_checksum import VersionChecksum
    from deltasnap_core.protocol.table_features import check_readable, is_catalog_managed, properties_in_force
    from deltasnap_core.ranges import VersionRanges, contiguous_runs
    from deltasnap_core.redaction import (
        hide_secrets,
        is_harmless_option,
        learn_options,
        learn_secret,
        learn_settings,
        learn_url,
        logger_of,
        redacted,
    )
    from deltasnap_core.replay.driver.file_difference import FileDifference, file_difference
    from deltasnap_core.replay.engine import EngineUse
    from deltasnap_core.replay.sessions import SparkProvider
    from deltasnap_core.replay.spark.reading.schemas import ALL_FILES_SCHEMA, TOMBSTONES_SCHEMA
    from deltasnap_core.replay.spark.reading.table_schema import parse_schema
    from deltasnap_core.replay.spark.session.local_rows import arrow_rows
    from deltasnap_core.replay.spark.session.spark_failures import SPARK_FAILURES, spark_cause
    from deltasnap_core.rules.paths import path_key_sql, path_keys
    from deltasnap_core.scan.collected_rows import collected_rows
    from deltasnap_core.scan.file_changes import ChangeSummary, FileChanges
    from deltasnap_core.scan.planning import ScanReport
    from deltasnap_core.scan.predicate_analysis import predicate_failures
    from deltasnap_core.scan.scan import Scan
    from deltasnap_core.scan.scan_options import ScanOptions
    from deltasnap_core.scan.tables.metadata_tables import MetadataTables
    from deltasnap_core.scan.tables.optimize_candidates import OptimizeCandidate
    from deltasnap_core.scan.tables.vacuum_summary import AGES_DAYS, VacuumGroup, VacuumSummary
    from deltasnap_core.snapshot.checkpoints.written_checkpoint import WrittenCheckpoint
    from deltasnap_core.snapshot.delta_log import DeltaLog
    from deltasnap_core.snapshot.initial_snapshot import InitialSnapshot
    from deltasnap_core.snapshot.snapshot import Snapshot
    from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
    from deltasnap_core.storage.concurrency import ReadThreads, map_concurrently
    from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
    from deltasnap_core.storage.log_store import FileStatus, LogStore
    from deltasnap_core.storage.matching import folder_of_pattern, matching_paths
    from deltasnap_core.storage.urls import is_url, to_url
    from deltasnap_core.store.fleet.fleet_row import FLEET_SCHEMA, FleetRow
    from deltasnap_core.store.fleet.last_poll import LastPoll, StaleRule, TableProblem
    from deltasnap_core.store.fleet.last_polls import LastPolls
    from deltasnap_core.store.fleet.table_level import (
        CLOCK_SKEW_MS,
        OTHER_PATH,
        TableLevel,
        TableStatus,
        of_another_table,
    )
    from deltasnap_core.store.format.layout import ManifestName
    from deltasnap_core.store.format.manifest import VersionChanges, VersionManifest
    from deltasnap_core.store.snapshot_store import SnapshotStore
    from deltasnap_core.store.versions.common_version import CommonVersion, LogRelation

_MODULES = {
    "errors": (
        "ActionNotFoundError",
        "CheckpointMismatchError",
        "CorruptLogError",
        "CorruptStoreError",
        "DataFileError",
        "DataFileNotFoundError",
        "DataPathError",
        "DeltaSnapError",
        "DeltaTableNotFoundError",
        "LogChangedError",
        "NoFilesystemError",
        "PredicateError",
        "Problem",
        "ProblemKind",
        "ProtectedVersionError",
        "RowChangesError",
        "SparkRequiredError",
        "StorageError",
        "StoreChangedError",
        "StoredVersionNotFoundError",
        "TimestampNotFoundError",
        "UnsupportedProtocolError",
        "UnsupportedServerError",
        "UnsupportedSettingError",
        "UnsupportedStoreError",
        "UnsupportedWriterError",
        "VersionGapError",
        "VersionNotFoundError",
    ),
    "clock": ("milliseconds", "system_clock"),
    "distribution": ("DISTRIBUTION", "how_to_install"),
    "ranges": (
        "VersionRanges",
        "contiguous_runs",
    ),
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
    "protocol.log_files.file_names": (
        "LOG_FOLDER",
        "checkpoint_file",
        "commit_file",
    ),
    "protocol.schema_text": ("PHYSICAL_NAME",),
    "protocol.state.file_size_histogram": ("FileSizeHistogram",),
    "protocol.state.snapshot_state": ("SnapshotState",),
    "protocol.properties.table_config": (
        "column_mapping_mode",
        "deleted_file_retention_ms",
        "in_commit_timestamps_enabled",
        "target_file_size_bytes",
    ),
    "protocol.table_features": ("check_readable", "is_catalog_managed", "properties_in_force"),
    "protocol.state.version_checksum": ("VersionChecksum",),
    "storage.fsspec_log_store": ("FsspecLogStore",),
    "storage.log_store": (
        "FileStatus",
        "LogStore",
    ),
    "storage.concurrency": ("ReadThreads", "map_concurrently"),
    "storage.matching": ("folder_of_pattern", "matching_paths"),
    "storage.urls": ("is_url", "to_url"),
    "redaction": (
        "hide_secrets",
        "is_harmless_option",
        "learn_options",
        "learn_secret",
        "learn_settings",
        "learn_url",
        "logger_of",
        "redacted",
    ),
    "log.listing.catalog_commits": ("CatalogCommits",),
    "log.checksum_file": ("read_checksum",),
    "log.commits.commit_batch": ("ChangedFile",),
    "log.commits.commit_reader": ("read_commits",),
    "log.commits.commit_summary": ("CommitSummary",),
    "log.history.delta_history_manager": (
        "DeltaHistory",
        "DeltaHistoryManager",
    ),
    "log.listing.log_listing": ("LogListing",),
    "log.polling.log_poll": (
        "LogCursor",
        "LogPoll",
        "LogStatus",
    ),
    "log.listing.log_segment": ("LogSegment",),
    "log.condition.commit_findings": ("CommitFindings",),
    "log.condition.problem": ("Problem", "Where"),
    "log.condition.problem_kinds": ("ProblemKind",),
    "log.condition.loadable_versions": ("SoundVersion",),
    "log.condition.table_condition": ("TableCondition",),
    "log.table_log": ("TableLog",),
    "log.version_log": ("VersionLog",),
    "replay.driver.file_difference": ("FileDifference", "file_difference"),
    "replay.engine": ("EngineUse",),
    "replay.sessions": ("SparkProvider",),
    "replay.spark.reading.schemas": (
        "ALL_FILES_SCHEMA",
        "TOMBSTONES_SCHEMA",
    ),
    "replay.spark.session.spark_failures": (
        "SPARK_FAILURES",
        "spark_cause",
    ),
    "replay.spark.reading.table_schema": ("parse_schema",),
    "replay.spark.session.local_rows": ("arrow_rows",),
    "rules.paths": ("path_key_sql", "path_keys"),
    "scan.collected_rows": ("collected_rows",),
    "scan.file_changes": (
        "ChangeSummary",
        "FileChanges",
    ),
    "scan.tables.metadata_tables": ("MetadataTables",),
    "scan.scan_options": ("ScanOptions",),
    "scan.planning": ("ScanReport",),
    "scan.predicate_analysis": ("predicate_failures",),
    "scan.tables.optimize_candidates": ("OptimizeCandidate",),
    "scan.tables.vacuum_summary": (
        "AGES_DAYS",
        "VacuumGroup",
        "VacuumSummary",
    ),
    "scan.scan": ("Scan",),
    "log.checksum_validation": ("ChecksumDifference", "compare_with_log"),
    "snapshot.checkpoints.written_checkpoint": ("WrittenCheckpoint",),
    "snapshot.delta_log": ("DeltaLog",),
    "snapshot.initial_snapshot": ("InitialSnapshot",),
    "snapshot.snapshot_options": ("SnapshotOptions",),
    "snapshot.snapshot": ("Snapshot",),
    "store.versions.common_version": (
        "CommonVersion",
        "LogRelation",
    ),
    "store.fleet.last_polls": ("LastPolls",),
    "store.fleet.fleet_row": (
        "FLEET_SCHEMA",
        "FleetRow",
    ),
    "store.fleet.last_poll": (
        "LastPoll",
        "StaleRule",
        "TableProblem",
    ),
    "store.fleet.table_level": (
        "CLOCK_SKEW_MS",
        "OTHER_PATH",
        "TableStatus",
        "TableLevel",
        "of_another_table",
    ),
    "store.format.layout": ("ManifestName",),
    "store.format.manifest": (
        "VersionChanges",
        "VersionManifest",
    ),
    "store.snapshot_store": ("SnapshotStore",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

# Written out, not computed from the mapping above: type checkers read it.
__all__ = [
    "AGES_DAYS",
    "ALL_FILES_SCHEMA",
    "CLOCK_SKEW_MS",
    "DISTRIBUTION",
    "FLEET_SCHEMA",
    "LOG_FOLDER",
    "OTHER_PATH",
    "PHYSICAL_NAME",
    "SPARK_FAILURES",
    "TOMBSTONES_SCHEMA",
    "ActionNotFoundError",
    "AddFile",
    "CatalogCommits",
    "ChangeSummary",
    "ChangedFile",
    "CheckpointMismatchError",
    "ChecksumDifference",
    "CommitFindings",
    "CommitInfo",
    "CommitSummary",
    "CommonVersion",
    "CorruptLogError",
    "CorruptStoreError",
    "DataFileError",
    "DataFileNotFoundError",
    "DataPathError",
    "DeltaHistory",
    "DeltaHistoryManager",
    "DeltaLog",
    "DeltaSnapError",
    "DeltaTableNotFoundError",
    "DomainMetadata",
    "EngineUse",
    "FileChanges",
    "FileDifference",
    "FileSizeHistogram",
    "FileStatus",
    "FleetRow",
    "Format",
    "FsspecLogStore",
    "InitialSnapshot",
    "LastPoll",
    "LastPolls",
    "LogChangedError",
    "LogCursor",
    "LogListing",
    "LogPoll",
    "LogRelation",
    "LogSegment",
    "LogStatus",
    "LogStore",
    "ManifestName",
    "Metadata",
    "MetadataTables",
    "NoFilesystemError",
    "OptimizeCandidate",
    "PredicateError",
    "Problem",
    "ProblemKind",
    "ProtectedVersionError",
    "Protocol",
    "ReadThreads",
    "RemoveFile",
    "RowChangesError",
    "Scan",
    "ScanOptions",
    "ScanReport",
    "SetTransaction",
    "Snapshot",
    "SnapshotOptions",
    "SnapshotState",
    "SnapshotStore",
    "SoundVersion",
    "SparkProvider",
    "SparkRequiredError",
    "StaleRule",
    "StorageError",
    "StoreChangedError",
    "StoredVersionNotFoundError",
    "TableCondition",
    "TableLevel",
    "TableLog",
    "TableProblem",
    "TableStatus",
    "TimestampNotFoundError",
    "UnsupportedProtocolError",
    "UnsupportedServerError",
    "UnsupportedSettingError",
    "UnsupportedStoreError",
    "UnsupportedWriterError",
    "VacuumGroup",
    "VacuumSummary",
    "VersionChanges",
    "VersionChecksum",
    "VersionGapError",
    "VersionLog",
    "VersionManifest",
    "VersionNotFoundError",
    "VersionRanges",
    "Where",
    "WrittenCheckpoint",
    "arrow_rows",
    "check_readable",
    "checkpoint_file",
    "collected_rows",
    "column_mapping_mode",
    "commit_file",
    "compare_with_log",
    "contiguous_runs",
    "deleted_file_retention_ms",
    "file_difference",
    "folder_of_pattern",
    "hide_secrets",
    "how_to_install",
    "in_commit_timestamps_enabled",
    "is_catalog_managed",
    "is_harmless_option",
    "is_url",
    "learn_options",
    "learn_secret",
    "learn_settings",
    "learn_url",
    "logger_of",
    "map_concurrently",
    "matching_paths",
    "milliseconds",
    "of_another_table",
    "parse_schema",
    "path_key_sql",
    "path_keys",
    "predicate_failures",
    "properties_in_force",
    "read_checksum",
    "read_commits",
    "redacted",
    "spark_cause",
    "system_clock",
    "target_file_size_bytes",
    "to_url",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
