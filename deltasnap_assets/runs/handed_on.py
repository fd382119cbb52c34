"""What `refresh` saw of a log, handed on to the run that it starts in the same process: it is not listed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltasnap_core import LogListing

_LISTINGS: dict[str, dict[str, LogListing]] = {}


@contextmanager
def handed_on(run_id: str, table_name: str, listing: LogListing | None) -> Iterator[None]:
    """Let the run of that id, while it lasts, find the listing of a table's log."""
    _LISTINGS[run_id] = {} if listing is None else {table_name: listing}
    try:
        yield
    finally:
        del _LISTINGS[run_id]


def listings_of(run_id: str) -> dict[str, LogListing]:
    """Return the listings handed on to a run, by table; none for a run of a process of its own."""
    return dict(_LISTINGS.get(run_id, {}))
