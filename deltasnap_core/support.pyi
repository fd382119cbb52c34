from .catalogs.remembered import RememberedCatalog as RememberedCatalog
from .clock import (
    milliseconds as milliseconds,
    system_clock as system_clock,
)
from .distribution import (
    DISTRIBUTION as DISTRIBUTION,
    how_to_install as how_to_install,
)
from .log.checksum_validation import (
    ChecksumDifference as ChecksumDifference,
    compare_time_with_log as compare_time_with_log,
    compare_with_log as compare_with_log,
    read_checksum as read_checksum,
)
from .log.commits.commit_batch import ChangedFile as ChangedFile
from .log.commits.commit_reader import read_commits as read_commits
from .log.commits.commit_summary import CommitSummary as CommitSummary
from .log.commits.daily_rows import DailyRows as DailyRows
from .log.condition.commit_findings import CommitFindings as CommitFindings, SoundVersion as SoundVersion
from .log.condition.problem_kinds import (
    TEMPLATES as TEMPLATES,
    Severity as Severity,
)
from .log.history.log_cleanup import cleanup_orphans as cleanup_orphans
from .log.listing.catalog_commits import asks_catalog as asks_catalog
from .log.listing.log_listing import LogListing as LogListing
from .once import once as once
from .protocol.actions import Format as Format
from .protocol.log_files.file_names import (
    LOG_FOLDER as LOG_FOLDER,
    checkpoint_file as checkpoint_file,
    commit_file as commit_file,
)
from .protocol.properties.table_config import (
    column_mapping_mode as column_mapping_mode,
    deleted_file_retention_ms as deleted_file_retention_ms,
    in_commit_timestamps_enabled as in_commit_timestamps_enabled,
    target_file_size_bytes as target_file_size_bytes,
)
from .protocol.schema_text import PHYSICAL_NAME as PHYSICAL_NAME
from .protocol.table_features import (
    check_readable as check_readable,
    is_catalog_managed as is_catalog_managed,
    properties_in_force as properties_in_force,
)
from .ranges import contiguous_runs as contiguous_runs
from .redaction import (
    hide_secrets as hide_secrets,
    is_harmless_option as is_harmless_option,
    learn_options as learn_options,
    learn_secret as learn_secret,
    learn_settings as learn_settings,
    learn_url as learn_url,
    logger_of as logger_of,
    redacted as redacted,
    safe_repr as safe_repr,
)
from .replay.driver.file_difference import (
    FileDifference as FileDifference,
    file_difference as file_difference,
)
from .replay.engine import EngineUse as EngineUse
from .replay.sessions import SparkProvider as SparkProvider
from .replay.spark.reading.table_schema import parse_schema as parse_schema
from .replay.spark.session.local_rows import arrow_rows as arrow_rows
from .replay.spark.session.spark_failures import (
    SPARK_FAILURES as SPARK_FAILURES,
    spark_cause as spark_cause,
)
from .rules.paths import (
    path_key_sql as path_key_sql,
    path_keys as path_keys,
)
from .rules.rows_in_pandas import rows_in_pandas as rows_in_pandas
from .scan.changes.row_changes import RowChangeOptions as RowChangeOptions
from .scan.collected_rows import collected_rows as collected_rows, countable as countable
from .scan.planning import ConditionReport as ConditionReport
from .scan.predicate_analysis import (
    filtered_rows as filtered_rows,
    predicate_failures as predicate_failures,
)
from .scan.search.bisect import (
    Bisection as Bisection,
    Outcome as Outcome,
)
from .scan.search.blame import (
    RowChange as RowChange,
    RowHistory as RowHistory,
)
from .scan.search.judge import Judgement as Judgement
from .scan.search.known_versions import KnownVersions as KnownVersions
from .scan.tables.column_trends import ColumnTrend as ColumnTrend, Extreme as Extreme, Trends as Trends
from .scan.tables.optimize_candidates import OptimizeCandidate as OptimizeCandidate
from .scan.tables.storage_bill import StorageClass as StorageClass
from .scan.tables.vacuum_summary import (
    AGES_DAYS as AGES_DAYS,
    VacuumGroup as VacuumGroup,
)
from .storage.concurrency import (
    ReadThreads as ReadThreads,
    map_concurrently as map_concurrently,
)
from .storage.folder_listing import (
    folder_of_pattern as folder_of_pattern,
    matching_paths as matching_paths,
)
from .storage.fsspec_log_store import FsspecLogStore as FsspecLogStore
from .storage.temporary_options import with_own_options as with_own_options
from .storage.urls import (
    is_url as is_url,
    to_url as to_url,
)
from .store.fleet.fleet_row import FLEET_SCHEMA as FLEET_SCHEMA
from .store.fleet.last_poll import (
    DataChange as DataChange,
    LastPoll as LastPoll,
    problem_json as problem_json,
)
from .store.fleet.last_polls import (
    LastPolls as LastPolls,
    damaged_store as damaged_store,
)
from .store.fleet.table_level import (
    CLOCK_SKEW_MS as CLOCK_SKEW_MS,
    TableLevel as TableLevel,
    TableStatus as TableStatus,
    of_another_table as of_another_table,
)
from .store.format.layout import ManifestName as ManifestName
from .store.format.manifest import VersionChanges as VersionChanges
from .store.repair import Repair as Repair
from .store.versions.common_version import (
    CommonVersion as CommonVersion,
    LogRelation as LogRelation,
)
