"""DataFile: a data file whose rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltasnap_core.protocol.actions import DeletionVectorDescriptor
from deltasnap_core.scan.files.data_paths import spark_name
from deltasnap_core.scan.files.roaring import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file: its URL, the name that Spark reads it by, its partition values, its deletion vector.

    path: as in the log.
    only: the indexes of the rows to read, even if the vector deletes them; None: all rows that it does not delete.
    size: in bytes, as in the log; 0: unknown.
    records: the number of rows by its statistics, only for a file with a vector; None: unknown.
    tags: a number for each tag of `read_rows`.
    """

    path: str
    url: str
    readable: str
    partition_values: Mapping[str, str | None]
    vector: DeletionVectorDescriptor | None
    size: int = 0
    records: int | None = None
    only: Rows | None = field(default=None, compare=False)
    tags: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The possible values of `_metadata.file_path` for it: Hadoop has two forms for the URL of a local file."""
        name = spark_name(self.readable)
        path = name.removeprefix("file:").lstrip("/")
        return (f"file:/{path}", f"file:///{path}") if name.startswith("file:") else (name,)

    @property
    def key(self) -> tuple[str, str | None]:
        """The path in the log, and the id of the deletion vector."""
        return self.path, None if self.vector is None else self.vector.unique_id
