"""ScannedTable: what a scan must know of one version of a table, wherever the version comes from."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.replay.spark.local_rows import no_rows
from deltasnap_core.replay.spark.spark_files import SparkFiles
from deltasnap_core.replay.spark.table_schema import parse_schema
from deltasnap_core.scan.data_paths import data_file_url
from deltasnap_core.scan.deletion_vectors import DeletionVectors
from deltasnap_core.scan.options import ScanOptions
from deltasnap_core.scan.physical_schema import logical_schema
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.storage.log_store import LogStore


class ScannedTable:
    """One version of a table, as scans see it; immutable."""

    def __init__(
        self,
        sessions: SparkProvider,
        *,
        table_path: str,
        version: int | None,
        metadata: Metadata,
        store: LogStore,
        spark_files: SparkFiles,
        options: ScanOptions | None = None,
    ) -> None:
        """table_path: URL of the folder that relative paths start from. version: for errors; None: not known.

        store: reads deletion vectors. spark_files: gives Spark the data files.
        """
        self.sessions = sessions
        self.table_path = table_path
        self.version = version
        self.metadata = metadata
        self.store = store
        self.spark_files = spark_files
        self.options = options or ScanOptions()
        roots = self.options.data_roots
        self.url_of = partial(data_file_url, table_path=table_path, roots=roots)
        self.vectors = DeletionVectors(store=store, table_path=table_path, version=version, roots=roots)

    @property
    def spark(self) -> SparkSession:
        """The Spark session, which runs every scan."""
        return self.sessions.session("a scan of rows")

    @once
    def schema(self) -> StructType:
        """The schema of the table, as the log has it. Errors: CorruptLogError where that is none."""
        try:
            return parse_schema(self.metadata.schema_string)
        except ValueError as error:
            reason = f"metadata of version {self.version}: {error}"
            raise CorruptLogError(path=self.table_path, reason=reason) from error

    @once
    def columns(self) -> TableColumns:
        """The columns by every name they go by. Errors: as `schema`."""
        _ = self.schema
        return TableColumns(self.metadata)

    @once
    def no_rows(self) -> DataFrame:
        """A scan's rows without any row."""
        return no_rows(self.spark, logical_schema(self.schema))
