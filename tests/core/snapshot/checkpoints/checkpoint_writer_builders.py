"""Builders for the tests of checkpoint writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltasnap_core import DeltaLog
from deltasnap_core.protocol.log_files import file_names
from tests.builders import VECTOR_AT_4, Action, add, metadata, protocol, remove, write_log
from tests.conftest import NOW_MS, FixedClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LAST = 3


V2_PROTOCOL = protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=["v2Checkpoint"])


STATS = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'


def make_table(
    table: Path, *, configuration: dict[str, str] | None = None, of: Action | None = None, **fields: Any
) -> Path:
    """Write versions 0 to 3 with files, a tombstone, a transaction and domains. Return the log folder."""
    is_v2 = (configuration or {}).get("delta.checkpointPolicy") == "v2"
    gone = {"domain": "gone", "configuration": "{}", "removed": False}
    commits = {
        0: [of or (V2_PROTOCOL if is_v2 else protocol()), metadata(configuration=configuration, **fields)],
        1: [*(add(f"f%20{number}", size=number, stats=STATS) for number in range(20)), {"domainMetadata": gone}],
        2: [
            remove("f%203", deletion_timestamp=NOW_MS - 5, extendedFileMetadata=True, partitionValues={}, size=3),
            remove("f%204", deletion_timestamp=5),
            add("f%205", size=5, stats=STATS, deletionVector=VECTOR_AT_4, tags={"a": "b"}, baseRowId=7),
            remove("f%205", deletion_timestamp=NOW_MS - 5),
            {"txn": {"appId": "app", "version": 4, "lastUpdated": NOW_MS - 5}},
            {"txn": {"appId": "old", "version": 1, "lastUpdated": 5}},
        ],
        LAST: [
            {"domainMetadata": {"domain": "kept", "configuration": '{"x":1}', "removed": False}},
            {"domainMetadata": {**gone, "removed": True}},
        ],
    }
    return write_log(table, commits)


def log_of(spark: SparkSession, log: Path, now_ms: int = NOW_MS) -> DeltaLog:
    DeltaLog.clear_cache()
    return DeltaLog.for_table(spark, log.parent, clock=FixedClock(now_ms))


def state(spark: SparkSession, log: Path) -> list[str]:
    """The rows of the latest version, read again, and its computed state."""
    snapshot = log_of(spark, log).update()
    return [
        str(snapshot.version),
        json.dumps(snapshot.computed_state.to_json(), sort_keys=True),
        # A checkpoint changes no data.
        *sorted(str(row).replace("dataChange=True", "dataChange=False") for row in snapshot.state.collect()),
    ]


def names(log: Path) -> list[str]:
    return sorted(file.relative_to(log).as_posix() for file in log.rglob("*") if file.is_file())


CLASSIC = file_names.checkpoint_file(LAST)
