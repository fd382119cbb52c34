"""The `delta.*` properties that a reader needs, with their units and defaults.

Each function takes a table's `configuration` (Metadata.configuration). An invalid value counts as absent, with a
warning: a reader must not reject a table because of it. Source: Delta's `DeltaConfigs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeVar, cast

from deltasnap_core.protocol.properties.intervals import parse_interval_ms
from deltasnap_core.redaction import logger_of

_log = logger_of(__name__)

T = TypeVar("T")
Configuration = Mapping[str, str]
ColumnMappingMode = Literal["none", "id", "name"]
CheckpointPolicy = Literal["classic", "v2"]

_COLUMN_PATH = re.compile(r"\s*(?:`(?:[^`]|``)+`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|\w+))*\s*")
_COLUMN_NAME = re.compile(r"`(?:[^`]|``)+`|\w+")

COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
_FILE_RETENTION = "delta.deletedFileRetentionDuration"
_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"
_PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
_DAY_MS = 24 * 60 * 60 * 1000


def deleted_file_retention_ms(configuration: Configuration) -> int:
    """Return how long (ms) a tombstone is kept: `delta.deletedFileRetentionDuration`, default one week."""
    return _get(configuration, _FILE_RETENTION, parse_interval_ms, 7 * _DAY_MS)


def set_transaction_retention_ms(configuration: Configuration) -> int | None:
    """Return how long (ms) a transaction is kept: `delta.setTransactionRetentionDuration`; None (default): forever."""
    return _get(configuration, _TRANSACTION_RETENTION, parse_interval_ms, None)


def log_retention_ms(configuration: Configuration) -> int:
    """Return how long (ms) commits and checkpoints are kept: `delta.logRetentionDuration`, default 30 days."""
    return _get(configuration, "delta.logRetentionDuration", parse_interval_ms, 30 * _DAY_MS)


def expired_log_cleanup_enabled(configuration: Configuration) -> bool:
    """Return whether writers delete older ones: `delta.enableExpiredLogCleanup`, default true."""
    return _get(configuration, "delta.enableExpiredLogCleanup", _boolean, True)


def target_file_size_bytes(configuration: Configuration) -> int:
    """Return the size in bytes that files should have: `delta.targetFileSize`, default 128 MiB."""
    return _get(configuration, "delta.targetFileSize", parse_size_bytes, 128 << 20)


def checkpoint_policy(configuration: Configuration) -> CheckpointPolicy:
    """Return the kind of checkpoints to write: `delta.checkpointPolicy`, default "classic"."""
    return _get(configuration, "delta.checkpointPolicy", _checkpoint_policy, "classic")


def writes_stats_as_json(configuration: Configuration) -> bool:
    """Return whether a checkpoint has statistics as JSON: `delta.checkpoint.writeStatsAsJson`, default True."""
    return _get(configuration, "delta.checkpoint.writeStatsAsJson", _boolean, True)


def writes_stats_as_struct(configuration: Configuration) -> bool:
    """Return whether a checkpoint has statistics as values: `delta.checkpoint.writeStatsAsStruct`, default True."""
    return _get(configuration, "delta.checkpoint.writeStatsAsStruct", _boolean, True)


def protected_checkpoints_before(configuration: Configuration) -> int:
    """Return the version below which writers may create no checkpoint; 0: there is no such version.

    Property `delta.requireCheckpointProtectionBeforeVersion`. Source: PROTOCOL.md, Checkpoint Protection.
    """
    return _get(configuration, _PROTECTED_BEFORE, partial(_at_least, 0), 0)


def stats_columns(configuration: Configuration) -> tuple[tuple[str, ...], ...] | None:
    """Return the columns with statistics, each as a path of names: `delta.dataSkippingStatsColumns`; None: not set.

    Example: "a, b.c, `d,e`" is (("a",), ("b", "c"), ("d,e",)).
    """
    return _get(configuration, "delta.dataSkippingStatsColumns", _column_paths, None)


def num_indexed_cols(configuration: Configuration) -> int:
    """Return the number of columns with statistics: `delta.dataSkippingNumIndexedCols`, default 32; -1: all."""
    return _get(configuration, "delta.dataSkippingNumIndexedCols", partial(_at_least, -1), 32)


def column_mapping_mode(configuration: Configuration) -> ColumnMappingMode:
    """Return how data files name the columns: `delta.columnMapping.mode`, default "none".

    configuration: as `properties_in_force` returns it.
    """
    return _get(configuration, COLUMN_MAPPING_MODE, _column_mapping_mode, "none")


def check_column_mapping_mode(configuration: Configuration) -> None:
    """Raise ValueError for an unknown mode, with which the column names in data files would be unknown."""
    _check(configuration, COLUMN_MAPPING_MODE, _column_mapping_mode)


def check_checkpoint_properties(configuration: Configuration) -> None:
    """Raise ValueError for an invalid property with whose default a writer might drop or write what it must not.

    These are the durations for which a checkpoint keeps tombstones and transactions, and the protected versions.
    """
    for key in (_FILE_RETENTION, _TRANSACTION_RETENTION):
        _check(configuration, key, parse_interval_ms)
    _check(configuration, _PROTECTED_BEFORE, partial(_at_least, 0))


def change_data_feed_enabled(configuration: Configuration) -> bool:
    """Return whether writers record row changes: `delta.enableChangeDataFeed`, default False.

    Without it, its earlier name `delta.enableChangeDataCapture` counts, as in Delta.
    """
    earlier = _get(configuration, "delta.enableChangeDataCapture", _boolean, False)
    return _get(configuration, "delta.enableChangeDataFeed", _boolean, earlier)


def in_commit_timestamps_enabled(configuration: Configuration) -> bool:
    """Return whether commits have their own timestamp: `delta.enableInCommitTimestamps`, default False.

    configuration: as `properties_in_force` returns it.
    """
    return _get(configuration, IN_COMMIT_TIMESTAMPS, _boolean, False)


def in_commit_timestamp_enablement(configuration: Configuration) -> tuple[int | None, int | None]:
    """Return the version that enabled in-commit timestamps, and its timestamp in ms.

    A writer records both, or neither if they have been enabled since version 0.
    Source: PROTOCOL.md, In-Commit Timestamps, Writer Requirements.
    """
    version = _get(configuration, "delta.inCommitTimestampEnablementVersion", partial(_at_least, 0), None)
    timestamp = _get(configuration, "delta.inCommitTimestampEnablementTimestamp", int, None)
    return version, timestamp


def _check(configuration: Configuration, key: str, parse: Callable[[str], object]) -> None:
    text = configuration.get(key)
    if text is None:
        return
    try:
        parse(text)
    except ValueError as error:
        raise ValueError(f"{key}={text!r:.80}: {error}") from error


def _get(configuration: Configuration, key: str, parse: Callable[[str], T], default: T) -> T:
    text = configuration.get(key)
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError as error:
        _log.warning("Table property %s=%r ignored, %s used instead: %s", key, text, default, error)
        return default


def _at_least(smallest: int, text: str) -> int:
    number = int(text)
    if number < smallest:
        raise ValueError(f"expected {smallest} or more")
    return number


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _column_mapping_mode(text: str) -> ColumnMappingMode:
    if text.lower() not in ("none", "id", "name"):
        raise ValueError("expected none, id or name")
    return cast(ColumnMappingMode, text.lower())


def _checkpoint_policy(text: str) -> CheckpointPolicy:
    if text.lower() not in ("classic", "v2"):
        raise ValueError("expected classic or v2")
    return cast(CheckpointPolicy, text.lower())


def _column_paths(text: str) -> tuple[tuple[str, ...], ...]:
    paths: list[tuple[str, ...]] = []
    start = 0
    while text.strip() and start <= len(text):
        match = _COLUMN_PATH.match(text, start)
        if match is None or text[match.end() : match.end() + 1] not in ("", ","):
            raise ValueError("expected column names, separated by commas")
        names = _COLUMN_NAME.findall(match.group())
        paths.append(tuple(name[1:-1].replace("``", "`") if name.startswith("`") else name for name in names))
        start = match.end() + 1
    return tuple(paths)


_SIZE = re.compile(r"(?P<number>\d{1,18})(?P<unit>[a-z]*)", re.ASCII)
_SHIFTS = {
    "": 0,
    "b": 0,
    **{unit + end: 10 * power for power, unit in enumerate("kmgtp", start=1) for end in ("", "b")},
}
_MOST = 1 << 62


def parse_size_bytes(text: str) -> int:
    """Return a size in bytes: `104857600`, `100mb`. Units are b, k, m, g, t and p, also as kb; 1 kb is 1,024 bytes.

    Errors: ValueError for anything else, for 0 and for sizes above 2^62.
    Source: Spark's `JavaUtils.byteStringAs`, which reads sizes of configurations.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    shift = None if match is None else _SHIFTS.get(match["unit"])
    if match is None or shift is None or not 0 < int(match["number"]) << shift <= _MOST:
        raise ValueError(f"expected a size such as '100mb', found {text!r}")
    return int(match["number"]) << shift
