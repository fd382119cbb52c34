"""The descriptor of a deletion vector, which marks deleted rows of a data file."""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.protocol.json_fields import JsonFields, JsonRecord


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

    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int
    cardinality: int
    max_row_index: int | None = None

    @classmethod
    def from_json(cls, values: object) -> DeletionVectorDescriptor:
        """Return the vector of a decoded `deletionVector` object.

        Errors: ValueError naming a missing or mistyped field.
        """
        fields = JsonFields("deletionVector", values)
        return cls(
            storage_type=fields.string("storageType"),
            path_or_inline_dv=fields.string("pathOrInlineDv"),
            offset=fields.optional_short_integer("offset"),
            size_in_bytes=fields.short_integer("sizeInBytes"),
            cardinality=fields.integer("cardinality"),
            max_row_index=fields.optional_integer("maxRowIndex"),
        )

    @property
    def unique_id(self) -> str:
        """`<storageType><pathOrInlineDv>`, followed by `@<offset>` unless the offset is None.

        The path and this id are the key of a logical file. Source: PROTOCOL.md, Deletion Vectors, Derived Fields.
        """
        at_offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at_offset}"
