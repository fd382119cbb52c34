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
    cache_state:    whether Spark keeps the `state` of the current snapshot once it was computed.
    """

    load_stats: bool = True
    validate_state: bool = True
    cache_state: bool = True
