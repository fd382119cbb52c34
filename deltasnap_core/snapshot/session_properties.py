"""Delta's session properties, as defaults for options. Read through `spark.conf`, so Spark Connect works too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions

_PREFIX = "spark.databricks.delta."
STALENESS_LIMIT = f"{_PREFIX}stalenessLimit"
VALIDATE_STATE = f"{_PREFIX}stateReconstructionValidation.enabled"
SNAPSHOT_PARTITIONS = f"{_PREFIX}snapshotPartitions"

# Spark's names for units of time, in milliseconds. Smaller units are rounded down.
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIME = re.compile(r"(\d+)\s*([a-z]*)")

T = TypeVar("T")


def staleness_limit_ms(sessions: SparkProvider) -> int:
    """Return the session's limit (ms) for the age of an update, above which a snapshot is stale; 0: not set.

    Errors: ValueError naming the property.
    """
    return _read(sessions, STALENESS_LIMIT, _milliseconds, "a time such as 500ms, 30s or 1h") or 0


def with_session_defaults(sessions: SparkProvider, options: SnapshotOptions) -> SnapshotOptions:
    """Return options with missing values taken from the session.

    Errors: ValueError naming the property.
    """
    validate, partitions = options.validate_state, options.snapshot_partitions
    if validate is None:
        validate = _read(sessions, VALIDATE_STATE, _boolean, "true or false")
    if partitions is None:
        partitions = _read(sessions, SNAPSHOT_PARTITIONS, _positive, "an integer above 0")
    return replace(options, validate_state=validate is not False, snapshot_partitions=partitions)


def _read(sessions: SparkProvider, name: str, parse: Callable[[str], T | None], expected: str) -> T | None:
    text = sessions.setting(name)
    if text is None:
        return None
    value = parse(text.strip().lower())
    if value is None:
        raise ValueError(f"{name}: expected {expected}, found {text!r}")
    return value


def _milliseconds(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    number, unit = int(match[1]), match[2] or "ms"
    if unit == "us":
        return number // 1000
    return number * _UNITS_MS[unit] if unit in _UNITS_MS else None


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def _positive(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None
