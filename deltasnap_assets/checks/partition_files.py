"""PartitionFiles: the files of one partition of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files of one partition of the table. values: by column, as in the log."""

    values: Mapping[str, str | None]
    num_files: int
    size_in_bytes: int

    @property
    def label(self) -> str:
        """Return the partition in the form of a path: `day=2026-03-02/country=de`."""
        return "/".join(f"{name}={'null' if value is None else value}" for name, value in self.values.items())
