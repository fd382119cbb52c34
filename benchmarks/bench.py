"""Bench: the shared state of the benchmarks: sizes, generated tables, a warm Spark session."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal

from pyspark.sql import SparkSession

from benchmarks.logs.maker import make_table
from benchmarks.logs.shape import LogShape
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.java import use_java
from deltasnap_assets.spark.session_config import session_config
from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore

OURS, PEER = "deltasnap", "deltalake"
_LONG_LIVED = {
    "spark.app.name": "deltasnap benchmarks",
    # Parquet is read into arrays of several MiB. In the small regions of a small heap each one is a humongous object.
    "spark.driver.defaultJavaOptions": "-XX:G1HeapRegionSize=16m",
}


@dataclass(frozen=True, kw_only=True)
class Bench:
    """files, commits: of the table that most benchmarks use. repeat: timed rounds.

    cores:  of the embedded Spark session. spark_config: its settings that override the app's.
    use:    the engine, a value of `spark: {use: ...}`. remote: of `spark: {remote: ...}`, in place of the embedded
            session; of the processes that benchmarks start, only `connect` and `latency_connect` use it.
    folder: for all output; generated tables stay in it.
    report: called with the current activity.
    """

    files: int
    commits: int
    repeat: int
    cores: int
    spark_config: dict[str, str]
    use: Literal["auto", "always"]
    folder: Path
    report: Callable[[str], None]
    remote: str | None = None

    @property
    def shape(self) -> LogShape:
        """The table that most benchmarks use: one tombstone per ten files, commits of 20 actions."""
        return LogShape(files=self.files, tombstones=self.files // 10, commits=self.commits, checksums=True)

    @property
    def spark_settings(self) -> SparkSettings:
        """The app's settings, on `cores` cores."""
        return SparkSettings(use=self.use, master=f"local[{self.cores}]", config=dict(self.spark_config))

    @property
    def options(self) -> SnapshotOptions:
        """The options of snapshots, including the engine."""
        return SnapshotOptions(engine=self.spark_settings.engine)

    @cached_property
    def spark(self) -> SparkSession:
        """The single session, with the JVM's default compilers and collectors, unlike a session of a run."""
        self.report("starting Spark")
        if self.remote is not None:
            settings = SparkSettings(remote=self.remote, config=dict(self.spark_config))
            return SparkSession.builder.config(map={**session_config(settings)}).getOrCreate()
        use_java()
        logging.getLogger("py4j").setLevel(logging.ERROR)
        builder = SparkSession.builder
        for key, value in {**session_config(self.spark_settings), **_LONG_LIVED}.items():
            builder = builder.config(key, value)
        return builder.config("spark.sql.warehouse.dir", str(self.folder / "warehouse")).getOrCreate()

    def table(self, shape: LogShape) -> Path:
        """Return the folder of a table. Generates the table if it does not exist."""
        folder = self.folder / "tables" / shape.name
        if not folder.exists():
            self.report(f"making a table of {shape}")
            folder.parent.mkdir(parents=True, exist_ok=True)
            make_table(shape, folder)
        return folder

    def scratch(self, name: str) -> Path:
        """Return a new, unused folder."""
        (self.folder / "scratch").mkdir(parents=True, exist_ok=True)
        return Path(mkdtemp(prefix=f"{name}-", dir=self.folder / "scratch"))

    def growing_table(self, shape: LogShape, version: int) -> GrowingTable:
        """Return a table of that shape that has grown to a version."""
        table = GrowingTable(source=self.table(shape), folder=self.scratch("table"))
        table.grow(version)
        return table

    def cold_log(self, table: Path) -> DeltaLog:
        """Return the log of a table in a process that has read nothing yet. Only the Spark session is warm."""
        DeltaLog.clear_cache()
        return DeltaLog.for_table(self.spark, table, options=self.options)

    def new_store(self) -> SnapshotStore:
        """Return an empty store."""
        return SnapshotStore.open(self.spark, self.scratch("store"), engine=self.spark_settings.engine)

    def close(self) -> None:
        """Stop the session and remove the output of benchmarks. Generated tables stay."""
        if "spark" in self.__dict__:
            DeltaLog.clear_cache()
            self.spark.stop()
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingTable:
    """A table whose commits are added on request: hard links to those of a generated table."""

    source: Path
    folder: Path

    def grow(self, version: int) -> None:
        """Add commits up to a version."""
        for source in sorted((self.source / "_delta_log").rglob("*")):
            target = self.folder / source.relative_to(self.source)
            name = source.name[:20]
            if source.is_dir() or target.exists() or (name.isdigit() and int(name) > version):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)

    def remove(self) -> None:
        """Remove the table."""
        shutil.rmtree(self.folder)
