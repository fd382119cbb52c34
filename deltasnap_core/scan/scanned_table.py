"""ScannedTable: what a scan must know of one version of a table, wherever the version comes from."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.replay.spark_files import SparkFiles
from deltasnap_core.replay.table_schema import parse_schema
from deltasnap_core.scan.data_paths import data_file_url
from deltasnap_core.scan.deletion_vectors import DeletionVectors
from deltasnap_core.scan.options import ScanOptions
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.storage.log_store import LogStore


class ScannedTable:
    """One version of a table, as scans see it; immutable."""

    def __init__(
        self,
        spark: SparkSession,
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
        self.spark = spark
        self.table_path = table_path
        self.version = version
        self.metadata = metadata
        self.store = store
        self.spark_files = spark_files
        self.options = options or ScanOptions()
        roots = self.options.data_roots
        self.url_of = partial(data_file_url, table_path=table_path, roots=roots)
        self.vectors = DeletionVectors(store=store, table_path=table_path, version=version, roots=roots)
        self.columns = TableColumns(metadata)

    @once
    def schema(self) -> StructType:
        """The schema of the table, as the log has it."""
        return parse_schema(self.metadata.schema_string)
