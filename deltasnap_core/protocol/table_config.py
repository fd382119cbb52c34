"""The `delta.*` properties that a reader needs, with their units and defaults.

Each function takes a table's `configuration` (Metadata.configuration). An invalid value counts as absent, with a
warning: a reader must not reject a table for it. Source: Delta's `DeltaConfigs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar, cast

from deltasnap_core.protocol.intervals import parse_interval_ms
from deltasnap_core.redaction import logger_of

logger = logger_of(__name__)

T = TypeVar("T")
Configuration = Mapping[str, str]
ColumnMappingMode = Literal["none", "id", "name"]

_DAY_MS = 24 * 60 * 60 * 1000


def deleted_file_retention_ms(configuration: Configuration) -> int:
    """Return how long (ms) a tombstone is kept: `delta.deletedFileRetentionDuration`, default one week."""
    return _get(configuration, "delta.deletedFileRetentionDuration", parse_interval_ms, 7 * _DAY_MS)


def log_retention_ms(configuration: Configuration) -> int:
    """Return how long (ms) the log of a version is kept: `delta.logRetentionDuration`, default 30 days."""
    return _get(configuration, "delta.logRetentionDuration", parse_interval_ms, 30 * _DAY_MS)


def set_transaction_retention_ms(configuration: Configuration) -> int | None:
    """Return how long (ms) a transaction is kept: `delta.setTransactionRetentionDuration`; None (default): forever."""
    return _get(configuration, "delta.setTransactionRetentionDuration", parse_interval_ms, None)


def checkpoint_interval(configuration: Configuration) -> int:
    """Return the number of commits between checkpoints: `delta.checkpointInterval`, default 10."""
    return _get(configuration, "delta.checkpointInterval", _at_least(1), 10)


def num_indexed_cols(configuration: Configuration) -> int:
    """Return the number of columns with statistics: `delta.dataSkippingNumIndexedCols`, default 32; -1: all."""
    return _get(configuration, "delta.dataSkippingNumIndexedCols", _at_least(-1), 32)


def column_mapping_mode(configuration: Configuration) -> ColumnMappingMode:
    """Return how data files name the columns: `delta.columnMapping.mode`, default "none"."""
    return _get(configuration, "delta.columnMapping.mode", _column_mapping_mode, "none")


def change_data_feed_enabled(configuration: Configuration) -> bool:
    """Return whether writers record row changes: `delta.enableChangeDataFeed`, default False."""
    return _get(configuration, "delta.enableChangeDataFeed", _boolean, False)


def in_commit_timestamps_enabled(configuration: Configuration) -> bool:
    """Return whether commits have their own timestamp: `delta.enableInCommitTimestamps`, default False."""
    return _get(configuration, "delta.enableInCommitTimestamps", _boolean, False)


def in_commit_timestamp_enablement(configuration: Configuration) -> tuple[int, int] | None:
    """Return the version that enabled in-commit timestamps and its timestamp in ms.

    None if they are not enabled, or have been enabled since version 0 (a writer then records neither value).
    Source: PROTOCOL.md, In-Commit Timestamps, Writer Requirements.
    """
    if not in_commit_timestamps_enabled(configuration):
        return None
    version = _get(configuration, "delta.inCommitTimestampEnablementVersion", _at_least(0), None)
    timestamp = _get(configuration, "delta.inCommitTimestampEnablementTimestamp", int, None)
    return None if version is None or timestamp is None else (version, timestamp)


def _get(configuration: Configuration, key: str, parse: Callable[[str], T], default: T) -> T:
    text = configuration.get(key)
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError as error:
        logger.warning("Table property %s=%r ignored, %s used instead: %s", key, text, default, error)
        return default


def _at_least(smallest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if number < smallest:
            raise ValueError(f"expected {smallest} or more")
        return number

    return parse


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _column_mapping_mode(text: str) -> ColumnMappingMode:
    if text.lower() not in ("none", "id", "name"):
        raise ValueError("expected none, id or name")
    return cast(ColumnMappingMode, text.lower())
