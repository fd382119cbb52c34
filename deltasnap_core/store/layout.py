"""The only place that builds or parses a name in a snapshot store; `snapshot_store` draws the whole tree."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from uuid import uuid4

MANIFESTS = "manifests"
BASE = "base"
CHANGES = "changes"
DOCUMENTS = "documents"
STAGING = "staging"
ALL_FILES = "all_files"
TOMBSTONES = "tombstones"
VERSION_TABLES = (ALL_FILES, TOMBSTONES)

_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_GENERATION = re.compile(r"(?P<ordinal>[0-9]{6})-[A-Za-z0-9_-]+\Z")
_MANIFEST = re.compile(r"(?P<generation>[0-9]{6}-[A-Za-z0-9_-]+)\.(?P<version>[0-9]{20})\.json\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_ID = 64


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ManifestName:
    """The name of a manifest: which version of which generation it commits. Ordered by generation, then version."""

    generation: str
    version: int

    @classmethod
    def parse(cls, name: str) -> ManifestName | None:
        """Parse a file name; None where it is no manifest's."""
        found = _MANIFEST.match(name)
        return None if found is None else cls(generation=found["generation"], version=int(found["version"]))

    def __str__(self) -> str:
        return f"{self.generation}.{self.version:020d}.json"


def check_table_name(table: str) -> str:
    """Give the name back where it can be a folder of the store.

    Errors: ValueError where it holds other characters than letters, digits, `_`, `-` and `.`.
    """
    if not _TABLE_NAME.match(table):
        raise ValueError(f"expected a table name of letters, digits, '_', '-' and '.', found {table!r}")
    return table


def generation_name(ordinal: int, table_id: str) -> str:
    """Name the generation that began with a table id: the ordinal puts the newest last, the id tells them apart."""
    safe = _UNSAFE.sub("_", table_id)[:_LONGEST_ID]
    if safe != table_id or not safe:
        safe = f"{safe}-{hashlib.sha256(table_id.encode()).hexdigest()[:8]}"
    return f"{ordinal:06d}-{safe}"


def generation_ordinal(generation: str) -> int | None:
    """Give the ordinal of a generation; None where the name is no generation's."""
    found = _GENERATION.match(generation)
    return None if found is None else int(found["ordinal"])


def new_folder(kind: str, first: int, last: int) -> str:
    """Name a data folder that no other write has: versions first to last of a base or of changes."""
    return f"{kind}/{first:020d}-{last:020d}-{uuid4().hex[:12]}"


def version_table_path(table_kind: str, version: int) -> str:
    """Give the path of the one file that holds `all_files` or `tombstones` of a version, below its generation.

    One file, so that two writers replace each other's whole and never mix.
    """
    return f"{table_kind}/version={version}/{table_kind}.parquet"


def document_path(digest: str) -> str:
    """Give the path of a shared document, below its generation."""
    return f"{DOCUMENTS}/{digest}.json"
