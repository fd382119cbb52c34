"""The single authority on the names in a snapshot store: builds and parses them.

The files below the root, for a table `events`:

    events/
      manifests/
        000001-<table id>.00000000000000000012.json     one per version: the commit point
        000002of000001at8-<table id>.fork.json          a generation that forked off another after version 8
        000001-<table id>.00000000000000000012.pruned   its versions before 12 were pruned, not lost
      last_poll.json                                    the result of the last poll of the log; of no version
      last_poll.json.lock                               while a process replaces that document
      000001-<table id>/                                a generation: all versions of one log
        base/<first>-<last>-<write>/part-*.parquet      key, add, remove: the whole state of one version
        changes/<first>-<last>-<write>/part-*.parquet   version, key, add, remove: the changes of those versions
        documents/<digest>.json                         shared by the manifests of many versions
        all_files/version=12/all_files.parquet          with materialize_as="table" only
        tombstones/version=12/tombstones.parquet
        staging/                                        files being written; empty otherwise
    @fleet/
      001790000000000.parquet                           one row per table, at this time in ms: see `fleet_history`

A version is stored if its manifest exists; no other file decides this. The manifest names every file of the version,
its computed state, its log segment, and the identity of its commit. The state of a version is its base, with the newest
row of each logical file from the changes up to the version applied. Rows with `add.path is not null` are live files,
the others are tombstones. A logical file is a decoded path with a deletion vector; `key` is a hash of the path.
`spark.read.parquet` and `pandas.read_parquet` can read all Parquet files.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from uuid import uuid4

from deltasnap_core.redaction import safe_repr

MANIFESTS = "manifests"
BASE = "base"
CHANGES = "changes"
DOCUMENTS = "documents"
STAGING = "staging"
ALL_FILES = "all_files"
TOMBSTONES = "tombstones"
LAST_POLL = "last_poll.json"
FLEET_FOLDER = "@fleet"
"""The folder of the fleet's history. No table can have this name."""

_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_GENERATION = r"[0-9]{6}(?:of(?P<parent>[0-9]{6})at(?P<fork>[0-9]{1,20}))?-[A-Za-z0-9_-]+"
_GENERATION_NAME = re.compile(_GENERATION + r"\Z")
_MANIFEST = re.compile(rf"(?P<generation>{_GENERATION})\.(?P<version>[0-9]{{20}})\.json\Z")
_FORK_MARKER = re.compile(rf"(?P<generation>{_GENERATION})\.fork\.json\Z")
_PRUNED_MARKER = re.compile(rf"(?P<generation>{_GENERATION})\.(?P<version>[0-9]{{20}})\.pruned\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MAX_ID_LENGTH = 64


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ManifestName:
    """The name of a manifest: the generation and the version that it commits. Ordered by generation, then version."""

    generation: str
    version: int

    @classmethod
    def parse(cls, name: str) -> ManifestName | None:
        """Return the parsed name; None: it is not the name of a manifest."""
        found = _MANIFEST.match(name)
        return None if found is None else cls(generation=found["generation"], version=int(found["version"]))

    def __str__(self) -> str:
        return f"{self.generation}.{self.version:020d}.json"


def check_table_name(table: str) -> str:
    """Return the name if it can be a folder of the store.

    Errors: ValueError if it has characters other than letters, digits, `_`, `-` and `.`.
    """
    if not _TABLE_NAME.match(table):
        raise ValueError(f"expected a table name of letters, digits, '_', '-' and '.', found {table!r}")
    return table


def is_table_name(name: str) -> bool:
    """Return whether a folder of the store can be that of a table."""
    return _TABLE_NAME.match(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """Where a generation forked off an earlier one. parent: its ordinal. version: the last version that both share.

    It is part of the generation's name, so that one listing shows which generation a version belongs to.
    """

    parent: int
    version: int


def generation_name(ordinal: int, table_id: str) -> str:
    """Return the name of a generation that starts with a table id. The ordinal sorts the newest last."""
    safe = _UNSAFE.sub("_", table_id)[:_MAX_ID_LENGTH]
    if safe != table_id or not safe:
        safe = f"{safe}-{hashlib.sha256(table_id.encode()).hexdigest()[:8]}"
    return f"{ordinal:06d}-{safe}"


def forked_name(ordinal: int, fork: ForkPoint, generation: str) -> str:
    """Return the name of a forked generation. It keeps the table id in the name of the given generation."""
    return f"{ordinal:06d}of{fork.parent:06d}at{fork.version}-{generation.partition('-')[2]}"


def generation_ordinal(generation: str) -> int:
    """Return the ordinal of a generation, whose name starts with it. Errors: ValueError for another name."""
    return int(generation[:6])


def fork_of(generation: str) -> ForkPoint | None:
    """Return where a generation forked off its parent; None: it has no parent."""
    found = _GENERATION_NAME.match(generation)
    if found is None or found["parent"] is None:
        return None
    return ForkPoint(parent=int(found["parent"]), version=int(found["fork"]))


def fork_marker(generation: str) -> str:
    """Return the name of the file, beside the manifests, that starts a forked generation.

    It may have no manifests yet.
    """
    return f"{generation}.fork.json"


def parse_fork_marker(name: str) -> str | None:
    """Return the generation that a file starts; None: it is not a fork marker."""
    found = _FORK_MARKER.match(name)
    return None if found is None else found["generation"]


def pruned_marker(kept: ManifestName) -> str:
    """Return the name of the file, beside the manifests, that records that versions before one were pruned."""
    return f"{kept.generation}.{kept.version:020d}.pruned"


def parse_pruned_marker(name: str) -> ManifestName | None:
    """Return the first version that was kept; None: the file is not such a marker."""
    found = _PRUNED_MARKER.match(name)
    return None if found is None else ManifestName(generation=found["generation"], version=int(found["version"]))


def new_folder(kind: str, first: int, last: int) -> str:
    """Return a unique name for a data folder: the versions first to last of a base or of changes."""
    return f"{kind}/{first:020d}-{last:020d}-{uuid4().hex[:12]}"


def plain_parquet_path(kind: str, version: int) -> str:
    """Return the path of the only file with `all_files` or `tombstones` of a version, below its generation.

    It is one file, so that two writers replace each other's file completely and never mix rows.
    """
    return f"{kind}/version={version}/{kind}.parquet"


def document_path(digest: str) -> str:
    """Return the path of a shared document, below its generation."""
    return f"{DOCUMENTS}/{digest}.json"
