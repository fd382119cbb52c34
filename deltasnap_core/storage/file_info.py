"""Converts the file information of fsspec filesystems to FileStatus."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from deltasnap_core.storage.log_store import FileStatus

# The keys of a modification time, the most reliable first. The memory filesystem and some object stores have only
# `created`: there, overwriting a file creates a new one.
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "modificationTime", "created")

_SECONDS_BELOW = 10**11  # as seconds this is the year 5138, as milliseconds March 1973


def status_of(url: str, info: Mapping[str, Any]) -> FileStatus:
    """Return the status of the file at `url` from the `info` or `ls` entry of its filesystem."""
    return FileStatus(path=url, size=int(info["size"]), modification_time=modification_time_ms(info))


def modification_time_ms(info: Mapping[str, Any]) -> int:
    """Return the modification time in ms since the epoch; 0: the filesystem does not state it."""
    for key in _TIME_KEYS:
        if (value := info.get(key)) is not None:
            return to_ms(value)
    return 0


def to_ms(value: object) -> int:
    """Return a filesystem's time (datetime, seconds or ms since the epoch, ISO or HTTP text) in ms."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    if isinstance(value, int | float):
        return round(value * 1000 if value < _SECONDS_BELOW else value)
    text = str(value)
    try:
        return to_ms(datetime.fromisoformat(text))
    except ValueError:
        return to_ms(parsedate_to_datetime(text))
