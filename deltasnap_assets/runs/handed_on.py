"""What `refresh` saw of a log, handed on to the run that it starts in the same process: no look is taken twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from deltasnap_core import CommonVersion, LogListing


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What lies in the log of a table, and how it stands to what is stored (None: not compared)."""

    listing: LogListing
    common: CommonVersion | None


_LOOKS: dict[str, dict[str, Look]] = {}


@contextmanager
def handed_on(run_id: str, table_name: str, look: Look | None) -> Iterator[None]:
    """Let the run of that id, while it lasts, find the look at a table's log."""
    _LOOKS[run_id] = {} if look is None else {table_name: look}
    try:
        yield
    finally:
        del _LOOKS[run_id]


def looks_of(run_id: str) -> Mapping[str, Look]:
    """Return the looks handed on to a run, by table; none for a run of a process of its own."""
    return dict(_LOOKS.get(run_id, {}))
