"""The descriptor of a deletion vector, which marks deleted rows of a data file."""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.protocol.json_records import Int, JsonRecord, Long


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor(JsonRecord):
    """The location of a deletion vector, and the number of rows it deletes.

    storage_type:      "u" (file named by a UUID, relative to the table), "p" (absolute path) or "i" (inline).
    path_or_inline_dv: the encoded UUID with its prefix, the path, or the encoded vector itself.
    offset:            first byte in its file; None for an inline vector, and not the same as 0.
    size_in_bytes:     of the serialized vector.
    cardinality:       number of deleted rows.
    max_row_index:     highest row index in it; transient, hardly ever written.

    Source: PROTOCOL.md, Deletion Vector Descriptor Schema.
    """

    json_name = "deletionVector"

    storage_type: str
    path_or_inline_dv: str
    offset: Int | None = None
    size_in_bytes: Int
    cardinality: Long
    max_row_index: Long | None = None

    @property
    def unique_id(self) -> str:
        """`<storageType><pathOrInlineDv>`, followed by `@<offset>` unless the offset is None.

        The path and this id are the key of a logical file. Source: PROTOCOL.md, Deletion Vectors, Derived Fields.
        """
        at_offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at_offset}"
