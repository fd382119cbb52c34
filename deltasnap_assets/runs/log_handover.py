"""Passes the log listing of `refresh` to the run that it starts in the same process, so that the log is read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from deltasnap_core.support import CommonVersion, LogListing


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLog:
    """The listing of a table's log, and how the log relates to the stored versions (None: not compared)."""

    listing: LogListing
    common: CommonVersion | None


_LISTED: dict[str, dict[str, ListedLog]] = {}


@contextmanager
def handing_over(run_id: str, table_name: str, listed: ListedLog | None) -> Iterator[None]:
    """Make the listed log of a table available to the run with this id, while the context is open."""
    _LISTED[run_id] = {} if listed is None else {table_name: listed}
    try:
        yield
    finally:
        del _LISTED[run_id]


def listed_logs_of(run_id: str) -> Mapping[str, ListedLog]:
    """Return the listed logs passed to a run, by table; empty for a run in another process."""
    return dict(_LISTED.get(run_id, {}))
