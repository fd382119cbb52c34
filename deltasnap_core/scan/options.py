"""How the rows of a table are to be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a caller may choose about scans.

    data_roots: folders (paths or URLs) besides that of the table that its data files and deletion vectors may be read
                from: those that a shallow clone refers to. Paths that lead elsewhere raise DataPathError.
    """

    data_roots: tuple[str, ...] = ()
