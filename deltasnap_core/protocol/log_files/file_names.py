"""The names of the files in `_delta_log`. The single authority on them: parses and builds them.

Source: PROTOCOL.md, File Types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Literal

LOG_FOLDER = "_delta_log"
"""The name of the folder with the log, in the folder of a table."""
SIDECAR_FOLDER = "_sidecars"
STAGED_COMMIT_FOLDER = "_staged_commits"
LAST_CHECKPOINT = "_last_checkpoint"

Extension = Literal["json", "parquet"]

_MAX_VERSION = 2**63 - 1
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class CheckpointKind(StrEnum):
    """The kinds of checkpoint by file name, in order of preference within a version, the best last.

    Delta's `CheckpointInstance.Format`. Source: PROTOCOL.md, Checkpoints.
    """

    CLASSIC = "classic"
    MULTIPART = "multipart"
    UUID = "uuid"

    @property
    def rank(self) -> int:
        """The position in the order of preference; the greatest is the best."""
        return _RANKS[self]


_RANKS = {kind: rank for rank, kind in enumerate(CheckpointKind)}


class LogFileKind(Enum):
    """The kinds of files in a log. Other files are ignored."""

    COMMIT = "commit"
    STAGED_COMMIT = "staged commit"
    CHECKPOINT = "checkpoint"
    COMPACTION = "log compaction"
    CHECKSUM = "version checksum"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLogPath:
    """The parts of a log file's name.

    version:         of the commit, checkpoint or checksum; the first version of a compaction, which ends at
                     `end_version`.
    checkpoint_kind: of the checkpoint that the file belongs to; None: it is not a checkpoint file.
    part, num_parts: of a multi-part checkpoint; `part` starts at 1.
    extension:       of a commit, checkpoint or compaction.
    """

    name: str
    kind: LogFileKind
    version: int
    checkpoint_kind: CheckpointKind | None = None
    end_version: int | None = None
    part: int | None = None
    num_parts: int | None = None
    extension: Extension | None = None

    @classmethod
    def parse(cls, name: str) -> ParsedLogPath | None:
        """Return the parsed file name (not a path); None: it is not the name of a log file.

        Also None for names that no writer may create: a version above 64 bits, a part number outside 1 to `num_parts`,
        a compaction that does not end after it starts.
        """
        # No regular expression for commits and checksums: nearly all files, and a log may hold a hundred thousand.
        if (kind := _PLAIN.get(name[20:])) is not None and (digits := name[:20]).isascii() and digits.isdigit():
            version, extension = int(digits), _EXTENSIONS.get(name[21:])
            return cls(name=name, kind=kind, version=version, extension=extension) if version <= _MAX_VERSION else None
        for kind, checkpoint_kind, pattern in _PATTERNS:
            if match := pattern.fullmatch(name):
                return cls._from_groups(name, kind, checkpoint_kind, match.groupdict())
        return None

    @classmethod
    def _from_groups(
        cls, name: str, kind: LogFileKind, checkpoint_kind: CheckpointKind | None, groups: dict[str, str]
    ) -> ParsedLogPath | None:
        numbers = {group: int(text) for group, text in groups.items()}
        version, end_version = numbers["version"], numbers.get("end_version")
        if end_version is not None and end_version <= version:
            return None
        if (end_version or version) > _MAX_VERSION:
            return None
        if "part" in numbers and not 1 <= numbers["part"] <= numbers["num_parts"]:
            return None
        return cls(
            name=name,
            kind=kind,
            checkpoint_kind=checkpoint_kind,
            extension=_EXTENSIONS.get(name.rpartition(".")[2]),
            **numbers,
        )


_EXTENSIONS: dict[str, Extension] = {"json": "json", "parquet": "parquet"}

_PLAIN = {".json": LogFileKind.COMMIT, ".crc": LogFileKind.CHECKSUM}
"""The kinds of files whose name is a version and this."""

_VERSION = r"(?P<version>[0-9]{20})"
_PATTERNS = tuple(
    (kind, checkpoint_kind, re.compile(_VERSION + rest))
    for kind, checkpoint_kind, rest in (
        (LogFileKind.CHECKPOINT, CheckpointKind.CLASSIC, r"\.checkpoint\.parquet"),
        (
            LogFileKind.CHECKPOINT,
            CheckpointKind.MULTIPART,
            r"\.checkpoint\.(?P<part>[0-9]{10})\.(?P<num_parts>[0-9]{10})\.parquet",
        ),
        (LogFileKind.CHECKPOINT, CheckpointKind.UUID, rf"\.checkpoint\.{_UUID}\.(?:json|parquet)"),
        (LogFileKind.COMPACTION, None, r"\.(?P<end_version>[0-9]{20})\.compacted\.json"),
        (LogFileKind.STAGED_COMMIT, None, rf"\.{_UUID}\.json"),
    )
)


@lru_cache(maxsize=1 << 16)
def commit_version(path: str) -> int:
    """Return the version of a commit, published or staged, from its path or name.

    Errors: ValueError if the name is not that of a commit.
    """
    # The name of a commit starts with its version. No regular expression, and a cache: a segment may hold tens of
    # thousands of commits, and each version of a range has a segment.
    name = path.rpartition("/")[2]
    if not (name[:20].isdecimal() and name[20:21] == "." and name.endswith(".json")):
        raise ValueError(f"Not a commit file: {path}")
    return int(name[:20])


def listing_prefix(version: int) -> str:
    """Return the prefix of the file names of `version`. A listing from this prefix starts with that version."""
    return f"{version:020d}."


def commit_file(version: int) -> str:
    """Return `<version>.json`."""
    return f"{version:020d}.json"


def checksum_file(version: int) -> str:
    """Return `<version>.crc`."""
    return f"{version:020d}.crc"


def checkpoint_file(version: int) -> str:
    """Return `<version>.checkpoint.parquet`, the classic name."""
    return f"{version:020d}.checkpoint.parquet"


def uuid_checkpoint_file(version: int, uuid: str, extension: Extension) -> str:
    """Return `<version>.checkpoint.<uuid>.<extension>`."""
    return f"{version:020d}.checkpoint.{uuid}.{extension}"
