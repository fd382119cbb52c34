"""Passes the log listing of `refresh` to the run that it starts in the same process, so that the log is read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from deltasnap_core import CommonVersion, LogListing


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The listing of a table's log, and how the log relates to the stored versions (None: not compared)."""

    listing: LogListing
    common: CommonVersion | None


_LOOKS: dict[str, dict[str, Look]] = {}


@contextmanager
def handed_on(run_id: str, table_name: str, look: Look | None) -> Iterator[None]:
    """Make a table's look available to the run with this id, while the context is open."""
    _LOOKS[run_id] = {} if look is None else {table_name: look}
    try:
        yield
    finally:
        del _LOOKS[run_id]


def looks_of(run_id: str) -> Mapping[str, Look]:
    """Return the looks passed to a run, by table; empty for a run in another process."""
    return dict(_LOOKS.get(run_id, {}))
