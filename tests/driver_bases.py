"""Bases of stored versions, written by the driver in place of Spark: tests of what follows a base need no JVM.

The code under test has Spark write every base. Here only that is replaced; its rows are those that Spark writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.checkpoint_shares import leaves_of, shares_of
from deltasnap_core.replay.driver.full_actions import (
    _plain_parts,
    _without_changed,
    decoded,
    full_actions,
    newest_lines,
)
from deltasnap_core.replay.driver.state_deltas import counted
from deltasnap_core.replay.engine import Answer, ReplayEngine, UnusualError
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.expiry import unexpired
from deltasnap_core.rules.file_actions import FULL_ACTION
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.rules.paths import path_keys
from deltasnap_core.rules.totals.aggregates import groups_of
from deltasnap_core.rules.totals.measures import MEASURED_COLUMNS, measures_of
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.rows import driver_rows
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.writing import range_writer

BY = "the driver, in a test"


def use_driver_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the driver write bases. All other work that needs Spark still raises SparkRequiredError."""
    on_spark = ReplayEngine.on_spark

    def answer(engine: ReplayEngine, reason: str, spark: Callable[[Any], Any]) -> Answer[Any]:
        is_base = reason.startswith("the base of version")
        return Answer(value=spark(None), computed_by=BY) if is_base else on_spark(engine, reason, spark)

    monkeypatch.setattr(ReplayEngine, "on_spark", answer)
    monkeypatch.setattr(range_writer, "reconciled_files", lambda reader, log: _actions(reader, log))
    monkeypatch.setattr(SparkRows, "write_base", _write_base)
    monkeypatch.setattr(SparkRows, "counted", _counted)
    monkeypatch.setattr(driver_rows, "ROWS_A_GROUP", 2)  # several, as of large versions


def _actions(reader: Any, log: LoadedLog) -> pa.Table:
    """Return the newest file actions of a version (FULL_ACTION)."""
    lines = newest_lines(log.batch, reader.log_path)
    columns = [f"{field.name}.{inner.name}" for field in FULL_ACTION for inner in field.type]
    shares = [share for part in _plain_parts(log) for share in shares_of(part, leaves_of(part, columns))]
    try:
        held = [full_actions(batch) for share in shares for batch in share.batches(reader.files._store)]
    except UnusualError as error:  # Spark fails too: the only such checkpoints of these tests are damaged
        raise CorruptLogError(path=shares[0].part.file.path, reason=str(error)) from error
    older = pa.concat_tables([FULL_ACTION.empty_table(), *held])
    return pa.concat_tables([_without_changed(older, lines, reader.log_path), decoded(lines["line"].to_pylist())])


def _write_base(rows: SparkRows, state: pa.Table, path: str, version: int) -> DataSet:
    keys = map(xxhash64, path_keys(measures_of(state)["path"].combine_chunks(), rows.log_path).to_pylist())
    keyed = state.add_column(0, "key", pa.array(keys, pa.int64()))
    return DataSet(first=version, last=version, files=_driver(rows)._write(keyed, path))


def _counted(rows: SparkRows, manifest: VersionManifest, non_file: NonFileActions, retention: Retention) -> StateDelta:
    return counted(groups_of(unexpired(_driver(rows)._newest(manifest, MEASURED_COLUMNS), retention)), non_file)


def _driver(rows: SparkRows) -> DriverRows:
    return DriverRows(storage=rows.parquet.storage, folder=rows.parquet.folder, log_path=rows.log_path)


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the session, for tests that need it only to write bases."""
    use_driver_bases(monkeypatch)
