"""Builders for the tests of vacuum candidates."""

from __future__ import annotations

from typing import Any

from deltasnap_core.scan.files.file_keys import UNRESOLVED, FileKeys
from tests.builders import metadata, protocol

VECTOR_UUID = "00000000-0000-0000-0000-000000000000"


VECTOR_FILE = f"deletion_vector_{VECTOR_UUID}.bin"


FIRST = (protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]), metadata())


def vector(storage_type: str, path: str) -> dict[str, Any]:
    values = {"storageType": storage_type, "pathOrInlineDv": path, "sizeInBytes": 34, "cardinality": 1}
    return values if storage_type == "i" else {**values, "offset": 1}


class PlainKeys(FileKeys):
    """Keys of paths that are spelled like the listed files: those of all spellings take long to plan."""

    def of_logged(self, path: str) -> str:
        decoded = self._decoded(path)
        keys = f"array(concat('/', {decoded}), {self.of_name(decoded)})"
        return f"if({path} is null or contains({path}, '%ff'), array('{UNRESOLVED}'), {keys})"

    def of_listed(self, path: str) -> str:
        return f"concat('/', {path})"

    def is_inside(self, path: str) -> str:
        return f"{path} is not null"

    def shown(self, path: str) -> str:
        return path
