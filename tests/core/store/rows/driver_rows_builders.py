"""Builders for the tests of driver rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.replay.driver.full_actions import decoded, newest_lines
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.rows.apply_step import ApplyStep
from deltasnap_core.store.rows.driver_rows import DriverRows
from tests.builders import LOG_PATH, Action, MemoryLogStore


def changes(*actions: Action) -> pa.Table:
    store = MemoryLogStore()
    lines = newest_lines(read_commits(store, [store.put_commit(1, *actions)]), LOG_PATH)
    return decoded(lines["line"].to_pylist())


def driver_rows(folder: Path) -> DriverRows:
    return DriverRows(storage=WritableFiles(to_url(folder)), folder=to_url(folder), log_path=LOG_PATH)


def step(previous: VersionManifest, folder: str, *commits: list[Action]) -> ApplyStep:
    """Return the step that applies commits to a version and merges its changes."""
    first = previous.version + 1
    store = MemoryLogStore()
    files = [store.put_commit(version, *actions) for version, actions in enumerate(commits, first)]
    versions = range(first, first + len(commits))
    return ApplyStep(
        previous=previous,
        batch=read_commits(store, files),
        merged=previous.changes,
        folder=folder,
        non_file=dict.fromkeys(versions, NonFileActions()),
        retentions=dict.fromkeys([previous.version, *versions], KEEP_ALL),
    )


def base_rows(folder: Path, changes: DataSet) -> pa.Table:
    return pq.read_table(folder / changes.files[0].path).drop_columns("version")


def empty_version() -> VersionManifest:
    return VersionManifest(
        table="t",
        version=0,
        generation="g",
        table_id="",
        log_path=LOG_PATH,
        timestamp=0,
        min_file_retention_timestamp=0,
        base=DataSet(first=0, last=0, files=()),
    )
