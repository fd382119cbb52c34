"""KnownVersions: the versions of a table to search, from its log, from a store or from both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from deltasnap_core.redaction import safe_repr
from deltasnap_core.scan.changes.row_changes import check_options
from deltasnap_core.scan.search.bisect import Bisection, BisectOptions, bisect
from deltasnap_core.scan.search.blame import RowHistory, blame
from deltasnap_core.scan.table_version import TableVersion


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class KnownVersions:
    """Versions of one table that may be readable.

    numbers: ascending, not empty. open: returns a version; errors: those of opening it.
    """

    numbers: Sequence[int]
    open: Callable[[int], TableVersion]

    def bisect(self, **wanted: Unpack[BisectOptions]) -> Bisection:
        """Return the version that changes an expectation from held to failed. See `Table.bisect`."""
        check_options(wanted, BisectOptions)
        return bisect(self, wanted)

    def blame(self, key: Mapping[str, object], *, first: int | None = None) -> RowHistory:
        """Return the history of the rows with a key. See `Table.blame`."""
        return blame(self, key, first)
