from .errors import (
    ActionNotFoundError as ActionNotFoundError,
    CorruptLogError as CorruptLogError,
    DeltaSnapError as DeltaSnapError,
    DeltaTableNotFoundError as DeltaTableNotFoundError,
    UnsupportedProtocolError as UnsupportedProtocolError,
    VersionGapError as VersionGapError,
    VersionNotFoundError as VersionNotFoundError,
)
from .log.condition.problem import (
    Problem as Problem,
    Where as Where,
)
from .log.condition.problem_kinds import ProblemKind as ProblemKind
from .log.condition.table_condition import TableCondition as TableCondition
from .log.history.delta_history_manager import (
    DeltaHistory as DeltaHistory,
    DeltaHistoryManager as DeltaHistoryManager,
)
from .log.listing.catalog_commits import CatalogCommits as CatalogCommits
from .log.listing.log_segment import LogSegment as LogSegment
from .log.polling.log_poll import (
    LogCursor as LogCursor,
    LogStatus as LogStatus,
)
from .log.table_log import TableLog as TableLog
from .log.version_log import VersionLog as VersionLog
from .protocol.actions import (
    CommitInfo as CommitInfo,
    DomainMetadata as DomainMetadata,
    Metadata as Metadata,
    Protocol as Protocol,
    SetTransaction as SetTransaction,
)
from .protocol.state.file_size_histogram import FileSizeHistogram as FileSizeHistogram
from .protocol.state.snapshot_state import SnapshotState as SnapshotState
from .protocol.state.version_checksum import VersionChecksum as VersionChecksum
from .ranges import VersionRanges as VersionRanges
from .replay.spark.reading.schemas import (
    ALL_FILES_SCHEMA as ALL_FILES_SCHEMA,
    TOMBSTONES_SCHEMA as TOMBSTONES_SCHEMA,
)
from .scan.file_changes import (
    ChangeSummary as ChangeSummary,
    FileChanges as FileChanges,
)
from .scan.planning import ScanReport as ScanReport
from .scan.scan import Scan as Scan
from .scan.scan_options import ScanOptions as ScanOptions
from .scan.table_rows import TableRows as TableRows
from .scan.table_version import TableVersion as TableVersion
from .scan.tables.metadata_tables import MetadataTables as MetadataTables
from .scan.tables.vacuum_summary import VacuumSummary as VacuumSummary
from .snapshot.checkpoints.written_checkpoint import WrittenCheckpoint as WrittenCheckpoint
from .snapshot.delta_log import DeltaLog as DeltaLog
from .snapshot.snapshot import Snapshot as Snapshot
from .snapshot.snapshot_options import SnapshotOptions as SnapshotOptions
from .snapshot.table import (
    Table as Table,
    open_table as open_table,
)
from .storage.log_store import (
    FileStatus as FileStatus,
    LogStore as LogStore,
)
from .store.fleet.fleet_row import FleetRow as FleetRow
from .store.format.manifest import VersionManifest as VersionManifest
from .store.snapshot_store import SnapshotStore as SnapshotStore

__version__: str
