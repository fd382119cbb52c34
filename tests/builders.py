"""Builders for tests: file statuses by name, log actions, tiny logs, and stores that count their calls.

Sizes and modification times are derived from the version, so that a test states only relevant values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.protocol.log_files.file_names import ParsedLogPath
from deltasnap_core.storage.log_store import FileStatus, LogStore

LOG_PATH = "file:///tables/events/_delta_log"
TABLE_PATH = "file:///tables/events"
FIRST_COMMIT_MS = 1_700_000_000_000
UUIDS = tuple(f"{n:08x}-0000-4000-8000-000000000000" for n in range(16))

Action = dict[str, Any]

VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 1}
"""A deletion vector in a file with no other one."""
VECTOR_AT_4 = {**VECTOR, "offset": 4}


def mtime_of(version: int) -> int:
    """Return the modification time of a version's files: one minute after the previous version."""
    return FIRST_COMMIT_MS + version * 60_000


# Names of log files that only readers of deltasnap meet: it writes none of them.


def staged_commit_file(version: int, uuid: str) -> str:
    """Return `<version>.<uuid>.json`, inside `_staged_commits`."""
    return f"{version:020d}.{uuid}.json"


def compaction_file(version: int, end_version: int) -> str:
    """Return `<version>.<end_version>.compacted.json`."""
    return f"{version:020d}.{end_version:020d}.compacted.json"


def multipart_checkpoint_files(version: int, num_parts: int) -> tuple[str, ...]:
    """Return `<version>.checkpoint.<part>.<num_parts>.parquet` for each part, in order."""
    return tuple(f"{version:020d}.checkpoint.{part:010d}.{num_parts:010d}.parquet" for part in range(1, num_parts + 1))


# File statuses.


def status(name: str, *, size: int | None = None, mtime: int | None = None, log_path: str = LOG_PATH) -> FileStatus:
    """Return a file in the log folder (`name` may include a subfolder)."""
    parsed = ParsedLogPath.parse(name.rpartition("/")[2])
    version = parsed.version if parsed else 0
    return FileStatus(
        path=f"{log_path}/{name}",
        size=100 + version if size is None else size,
        modification_time=mtime_of(version) if mtime is None else mtime,
    )


def commits(first: int, last: int) -> list[FileStatus]:
    """Return the published commits of the versions `first` to `last`."""
    return [status(file_names.commit_file(version)) for version in range(first, last + 1)]


def staged_commits(first: int, last: int) -> list[FileStatus]:
    """Return the ratified commits in `_staged_commits` of the versions `first` to `last`."""
    return [
        status(f"{file_names.STAGED_COMMIT_FOLDER}/{staged_commit_file(version, UUIDS[version % 16])}")
        for version in range(first, last + 1)
    ]


def checkpoint(version: int, *, parts: int | None = None, missing: Iterable[int] = ()) -> list[FileStatus]:
    """Return a classic checkpoint, or a multi-part one, without the parts `missing`."""
    names = [file_names.checkpoint_file(version)]
    if parts is not None:
        names = list(multipart_checkpoint_files(version, parts))
    return [status(name) for part, name in enumerate(names, start=1) if part not in set(missing)]


def uuid_checkpoint(
    version: int, *, uuid: str = UUIDS[0], extension: file_names.Extension = "parquet"
) -> list[FileStatus]:
    """A UUID-named checkpoint."""
    return [status(file_names.uuid_checkpoint_file(version, uuid, extension))]


def compaction(first: int, last: int) -> list[FileStatus]:
    """A compaction of the versions `first` to `last`."""
    return [status(compaction_file(first, last))]


def checksum(version: int) -> list[FileStatus]:
    """The `.crc` file of a version."""
    return [status(file_names.checksum_file(version))]


# Log actions, as decoded JSON.


def protocol(reader: int = 1, writer: int = 2, **features: Sequence[str]) -> Action:
    """Return a protocol action; `readerFeatures=..., writerFeatures=...` (by default those of readers)."""
    listed = {"writerFeatures": features.get("readerFeatures", [])} if writer == 7 else {}
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **listed, **features}}


def timed_protocol() -> Action:
    """Return the protocol of a table that supports in-commit timestamps."""
    return protocol(1, 7, writerFeatures=["inCommitTimestamp"])


def metadata(*, table_id: str = "table-id", configuration: Mapping[str, str] | None = None, **fields: Any) -> Action:
    """Return a metaData action of a table with the column `id`."""
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema(field("id")),
            "partitionColumns": [],
            "configuration": dict(configuration or {}),
            "createdTime": FIRST_COMMIT_MS,
            **fields,
        }
    }


def schema(*fields: Mapping[str, Any]) -> str:
    """Return the schema of a table, as in `metaData`."""
    return json.dumps({"type": "struct", "fields": fields})


def field(name: str, kind: Any = "long", **properties: Any) -> dict[str, Any]:
    """Return a field of a schema. properties: `nullable`, by default true, and its metadata."""
    nullable = properties.pop("nullable", True)
    return {"name": name, "type": kind, "nullable": nullable, "metadata": properties}


def mapped(name: str, kind: Any, number: int, column: str) -> dict[str, Any]:
    """Return a field of a table with column mapping. column: its name in data files."""
    return field(name, kind, **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": column})


def add(path: str, *, size: int = 1, **fields: Any) -> Action:
    """Return an add action of an unpartitioned file."""
    values = {"path": path, "partitionValues": {}, "size": size, "modificationTime": FIRST_COMMIT_MS}
    return {"add": {**values, "dataChange": True, **fields}}


def remove(path: str, *, deletion_timestamp: int | None = FIRST_COMMIT_MS, **fields: Any) -> Action:
    """A remove action."""
    return {"remove": {"path": path, "deletionTimestamp": deletion_timestamp, "dataChange": True, **fields}}


def commit_info(operation: str = "WRITE", **fields: Any) -> Action:
    """A commitInfo action."""
    return {"commitInfo": {"timestamp": FIRST_COMMIT_MS, "operation": operation, **fields}}


def content(actions: Iterable[Action]) -> bytes:
    """The content of a commit."""
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


def write_log(table: Path, versions: Mapping[int, Iterable[Action]]) -> Path:
    """Write commits into the log of a table folder. Return the log folder."""
    log = table / file_names.LOG_FOLDER
    log.mkdir(parents=True, exist_ok=True)
    for version, actions in versions.items():
        file = log / file_names.commit_file(version)
        file.write_bytes(content(actions))
        os.utime(file, (mtime_of(version) / 1000, mtime_of(version) / 1000))
    return log


def flip_bytes(file: Path, start: int, count: int = 400) -> None:
    """Flip every bit of some bytes of a file."""
    content = bytearray(file.read_bytes())
    content[start : start + count] = bytes(byte ^ 0xFF for byte in content[start : start + count])
    file.write_bytes(content)


# Log stores.


class MemoryLogStore:
    """A LogStore in memory: files are statuses only, or also have content."""

    def __init__(self, *statuses: Iterable[FileStatus], lists_from_name: bool = False) -> None:
        """Files without content, in any order: `MemoryLogStore(commits(0, 9), checkpoint(5))`."""
        self._lists_from_name = lists_from_name
        self.statuses: dict[str, FileStatus] = {file.path: file for files in statuses for file in files}
        self.contents: dict[str, bytes] = {}

    def put(self, name: str, data: bytes, *, mtime: int | None = None, log_path: str = LOG_PATH) -> FileStatus:
        """Write a file into the log folder."""
        file = status(name, size=len(data), mtime=mtime, log_path=log_path)
        self.statuses[file.path], self.contents[file.path] = file, data
        return file

    def put_commit(self, version: int, *actions: Action, mtime: int | None = None) -> FileStatus:
        """Write a commit into the log folder."""
        return self.put(file_names.commit_file(version), content(actions), mtime=mtime)

    def delete(self, *files: FileStatus) -> None:
        """Delete files."""
        for file in files:
            self.statuses.pop(file.path)
            self.contents.pop(file.path, None)

    def list_from(self, path: str) -> Iterator[FileStatus]:
        folder, _, first = path.rpartition("/")
        if not any(known.startswith(f"{folder}/") for known in self.statuses):
            raise FileNotFoundError(folder)
        files = (file for file in self.statuses.values() if file.path.rpartition("/")[0] == folder)
        return iter(sorted((file for file in files if file.name >= first), key=lambda file: file.name))

    def lists_from_name(self, folder: str) -> bool:
        return self._lists_from_name

    def status(self, path: str) -> FileStatus | None:
        return self.statuses.get(path)

    def read_bytes(self, path: str) -> bytes:
        if path not in self.contents:
            raise FileNotFoundError(path)
        return self.contents[path]

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read_bytes(path) for path in paths]

    def open(self, path: str) -> BinaryIO:
        return BytesIO(self.read_bytes(path))


class CountingLogStore:
    """A wrapper of a store that records the paths of each call."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.reset()

    def reset(self) -> None:
        """Reset all counts. `reads`: every file read, alone or with others; `listed`: every status returned."""
        self.lists: list[str] = []
        self.listed: list[str] = []
        self.statuses: list[str] = []
        self.reads: list[str] = []
        self.opens: list[str] = []

    @property
    def calls(self) -> int:
        """The number of all calls."""
        return len(self.lists) + len(self.statuses) + len(self.reads) + len(self.opens)

    def list_from(self, path: str) -> Iterator[FileStatus]:
        self.lists.append(path)
        return self._noted(self.store.list_from(path))

    def _noted(self, files: Iterator[FileStatus]) -> Iterator[FileStatus]:
        for file in files:
            self.listed.append(file.path)
            yield file

    def lists_from_name(self, folder: str) -> bool:
        return self.store.lists_from_name(folder)

    def status(self, path: str) -> FileStatus | None:
        self.statuses.append(path)
        return self.store.status(path)

    def read_bytes(self, path: str) -> bytes:
        self.reads.append(path)
        return self.store.read_bytes(path)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        self.reads.extend(paths)
        return self.store.read_many(paths)

    def open(self, path: str) -> BinaryIO:
        self.opens.append(path)
        return self.store.open(path)
