"""How snapshots of a table are to be loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """What a caller may choose about the snapshots of a table.

    load_stats:     whether `all_files` and `state` carry the statistics of each file; False leaves them null, which
                    spares reading the largest column of a log. `computed_state` counts records all the same.
    validate_state: whether a state without protocol or metadata is an error (ActionNotFoundError). False lets one
                    look at what a damaged log still holds; the checks of the protocol then apply where there is one.
    cache_state:    whether Spark keeps the `state` of the current snapshot once it was computed, and of a large table
                    what its computed state counts, to compute that of the next version from: 50 bytes a file.
    cached_counts_from: how many actions the checkpoint of a large table holds, at least. Those of a smaller one are
                    read again in the time that it takes to keep them.
    """

    load_stats: bool = True
    validate_state: bool = True
    cache_state: bool = True
    cached_counts_from: int = 50_000
