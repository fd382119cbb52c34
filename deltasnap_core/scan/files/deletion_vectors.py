"""Reads deletion vectors and checks them. No Spark.

Source: PROTOCOL.md, Deletion Vector Descriptor Schema; Deletion Vector File Storage Format.
"""

from __future__ import annotations

import binascii
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from deltasnap_core.errors import CorruptLogError, DataFileNotFoundError
from deltasnap_core.protocol.actions import DeletionVectorDescriptor
from deltasnap_core.redaction import redacted
from deltasnap_core.scan.files.data_paths import data_file_url
from deltasnap_core.scan.files.roaring import Rows, decode_rows
from deltasnap_core.storage.log_store import LogStore

ROW_BITS = 40
"""A row index fits in this many bits: no data file has more rows. Scans combine it with the number of a file."""
_Z85 = {
    character: value
    for value, character in enumerate(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
}
_UUID_CHARACTERS = 20
_FILE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectors:
    """Reads the deletion vectors of one version of a table.

    roots: as for `data_file_url`.
    """

    store: LogStore
    table_path: str
    version: int | None
    roots: Sequence[str] = ()

    def rows(self, vector: DeletionVectorDescriptor) -> Rows:
        """Return the indexes of the deleted rows of a data file, ascending.

        Errors: CorruptLogError (names the file) if size, checksum, magic number or cardinality is wrong;
        DataFileNotFoundError; DataPathError.
        """
        where = self._place(vector)
        try:
            _check_numbers(vector)
            content = decode_z85(vector.path_or_inline_dv) if vector.storage_type == "i" else self._read(where, vector)
            if vector.storage_type == "i":
                content = _cut(content, vector.size_in_bytes)
            rows = decode_rows(content)
            if len(rows) and rows[-1] >> ROW_BITS:
                raise ValueError(f"expected row indexes below 2^{ROW_BITS}, found {rows[-1]}")
            if len(rows) != vector.cardinality:
                raise ValueError(f"expected {vector.cardinality} rows, found {len(rows)}")
        except ValueError as error:
            raise CorruptLogError(path=redacted(where), reason=f"deletion vector: {error}") from error
        return rows

    def _place(self, vector: DeletionVectorDescriptor) -> str:
        if vector.storage_type == "i":
            return f"{self.table_path} (inline deletion vector)"
        try:
            relative = vector.path_or_inline_dv if vector.storage_type == "p" else quote(vector_file(vector))
        except ValueError as error:
            raise CorruptLogError(path=redacted(self.table_path), reason=f"deletion vector: {error}") from error
        return data_file_url(relative, self.table_path, self.roots)

    def _read(self, url: str, vector: DeletionVectorDescriptor) -> bytes:
        """Return the bytes of a vector in a file.

        The file has its size, the vector and its checksum; numbers are big-endian.
        """
        try:
            with self.store.open(url) as stream:
                if (found := stream.read(1)) != bytes([_FILE_VERSION]):
                    raise ValueError(f"expected version {_FILE_VERSION} of the file format, found {found!r}")
                stream.seek(1 if vector.offset is None else vector.offset)
                framed = stream.read(4 + vector.size_in_bytes + 4)
        except FileNotFoundError as error:
            raise DataFileNotFoundError(
                path=redacted(url), table=redacted(self.table_path), version=self.version
            ) from error
        if len(framed) != vector.size_in_bytes + 8:
            raise ValueError(f"expected {vector.size_in_bytes + 8} bytes at {vector.offset}, found {len(framed)}")
        content = framed[4:-4]
        (size,), (checksum,) = struct.unpack(">i", framed[:4]), struct.unpack(">I", framed[-4:])
        if size != vector.size_in_bytes:
            raise ValueError(f"expected the size {vector.size_in_bytes}, found {size}")
        if checksum != binascii.crc32(content):
            raise ValueError(f"expected the checksum {checksum:08x}, found {binascii.crc32(content):08x}")
        return content


def _check_numbers(vector: DeletionVectorDescriptor) -> None:
    for name, number in (("sizeInBytes", vector.size_in_bytes), ("offset", vector.offset or 0)):
        if not 0 <= number < 1 << 31:
            raise ValueError(f"expected {name} from 0 to {(1 << 31) - 1}, found {number}")


def decode_z85(text: str) -> bytes:
    """Return the bytes of a Z85 text. Errors: ValueError. Source: rfc.zeromq.org/spec/32.

    Rust writers pad the last five characters: they start with one `#` for each byte that is missing. No other
    characters of Z85 start with `#`.
    """
    if len(text) % 5:
        raise ValueError(f"expected Z85 with a length divisible by 5, found {len(text)} characters")
    content = bytearray()
    for begin in range(0, len(text), 5):
        block = text[begin : begin + 5]
        digits = block.lstrip("#") if begin + 5 == len(text) else block
        size, number = 4 - (len(block) - len(digits)), 0
        for character in digits:
            if character not in _Z85:
                raise ValueError(f"expected Z85, found {character!r}")
            number = number * 85 + _Z85[character]
        if size < 1 or number >> (8 * size):
            raise ValueError(f"expected five characters of Z85, found {block!r}")
        content += number.to_bytes(size, "big")
    return bytes(content)


def vector_file(vector: DeletionVectorDescriptor) -> str:
    """Return the path, below the table and not encoded, of a file that is named by a prefix and a UUID."""
    if vector.storage_type != "u":
        raise ValueError(f"expected a storage type of u, p or i, found {vector.storage_type!r}")
    prefix, encoded = vector.path_or_inline_dv[:-_UUID_CHARACTERS], vector.path_or_inline_dv[-_UUID_CHARACTERS:]
    if len(encoded) != _UUID_CHARACTERS:
        raise ValueError(f"expected a UUID in {_UUID_CHARACTERS} characters, found {encoded!r}")
    name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(encoded))}.bin"
    return f"{prefix}/{name}" if prefix else name


def _cut(content: bytes, size: int) -> bytes:
    # Z85 encodes four bytes at a time: up to three bytes are padding.
    if not size <= len(content) < size + 4:
        raise ValueError(f"expected {size} bytes, found {len(content)}")
    return content[:size]
