"""How the rows of a table are to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """What a caller may choose about scans.

    data_roots: folders (paths or URLs) besides that of the table that its data files and deletion vectors may be read
                from: those that a shallow clone refers to. Paths that lead elsewhere raise DataPathError.
    storage_options: for fsspec, of the data files that a stored version names; None: those of the store. A snapshot
                reads them with its own.
    """

    data_roots: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
