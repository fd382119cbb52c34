"""Options for reading the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Options for scans.

    data_roots: folders (paths or URLs) other than the table's from which data files and deletion vectors may be read,
                for example those of a shallow clone's source. Paths outside of these folders raise DataPathError.
    storage_options: for fsspec, for the data files of a stored version; None: those of the store. A snapshot always
                uses its own.
    """

    data_roots: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
