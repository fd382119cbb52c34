"""TableLog: the door to all that the log of a table says without a replay, and without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from deltasnap_core.log.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.loaded_log import LogLoader
from deltasnap_core.log.log_listing import table_path
from deltasnap_core.log.log_range import LogRange, read_log_range
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.file_names import LOG_FOLDER
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.urls import join_url, redacted, to_url

Clock = Callable[[], int]
"""The present, in milliseconds since the epoch."""


def system_clock() -> int:
    """Return the present, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class TableLog:
    """The log of one table as it lies there at each call: nothing is kept between two calls, so threads may share it.

    Errors of what looks for a version: DeltaTableNotFoundError, VersionNotFoundError (says which versions there are),
    VersionGapError.
    """

    def __init__(self, store: LogStore, log_path: str, *, clock: Clock = system_clock) -> None:
        """log_path: URL of the `_delta_log` folder. clock: the present, for what expires."""
        self.store = store
        self.log_path = log_path
        self.builder = LogSegmentBuilder(store=store, log_path=log_path)
        self.loader = LogLoader(store=store, builder=self.builder)
        self.history = DeltaHistoryManager(store, log_path)
        self._clock = clock

    @classmethod
    def for_path(
        cls,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        clock: Clock = system_clock,
    ) -> TableLog:
        """Return the log of the table in a folder or at a URL. storage_options: for fsspec."""
        return cls(FsspecLogStore(storage_options), join_url(to_url(path), LOG_FOLDER), clock=clock)

    def __repr__(self) -> str:
        return f"TableLog({redacted(self.table_path)})"

    @property
    def table_path(self) -> str:
        """URL of the table's folder."""
        return table_path(self.log_path)

    def latest(self) -> VersionLog:
        """Return what the log says of the latest version."""
        return self._version_log(self.builder.build(hint=self.builder.read_hint()))

    def at(self, version: int | None = None, *, timestamp: datetime | int | None = None) -> VersionLog:
        """Return what the log says of a version, or of the one as of a time: of the last commit at or before it.

        timestamp: a datetime (without a zone: local time) or ms since the epoch; after the last commit it means that.
        Errors: ValueError unless one of the two is given; TimestampNotFoundError.
        """
        if (version is None) == (timestamp is None):
            raise ValueError("Either a version or a timestamp says which version is wanted")
        if version is None:
            found = self.history.get_active_commit_at_time(milliseconds(timestamp), can_return_last_commit=True)
            version = found.version
        return self._version_log(self.builder.build(version, hint=self.builder.read_hint()))

    def range(self, first: int, last: int) -> LogRange:
        """Return the versions first to last, found by two listings."""
        return read_log_range(self.loader, first, last)

    def _version_log(self, segment: LogSegment) -> VersionLog:
        return VersionLog(self.loader, segment, now_ms=self._clock())


def milliseconds(timestamp: datetime | int | None) -> int:
    """Return a time in ms since the epoch. Errors: ValueError for what is no time."""
    if isinstance(timestamp, datetime):
        # Not by way of a float: it would lose the milliseconds of far dates.
        return (timestamp.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if isinstance(timestamp, int):
        return timestamp
    raise ValueError(f"A timestamp is a datetime or milliseconds since the epoch, not {timestamp!r}")
