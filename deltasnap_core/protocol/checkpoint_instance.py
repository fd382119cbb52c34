"""CheckpointInstance: which checkpoints a set of files makes up, and which of them to prefer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from deltasnap_core.protocol.file_names import LogFileKind, ParsedLogPath


class CheckpointFormat(IntEnum):
    """The ways to name a checkpoint; of several at one version the greater is preferred, as by Delta on Spark."""

    CLASSIC = 0
    MULTIPART = 1
    UUID = 2


_FORMATS = {
    LogFileKind.CLASSIC_CHECKPOINT: CheckpointFormat.CLASSIC,
    LogFileKind.MULTIPART_CHECKPOINT: CheckpointFormat.MULTIPART,
    LogFileKind.UUID_CHECKPOINT: CheckpointFormat.UUID,
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CheckpointInstance:
    """One checkpoint, whether all of its files are there or not.

    Ordered: the greatest is the one to use. Newer before older; at one version UUID-named before multi-part before
    classic, more parts before fewer, and of UUID-named ones the last by name.
    `num_parts`: 1 unless multi-part. `name`: of a UUID-named one, else empty.
    Source: PROTOCOL.md, Checkpoints (a reader may choose); Delta's `CheckpointInstance`.
    """

    version: int
    format: CheckpointFormat
    num_parts: int = 1
    name: str = ""

    @classmethod
    def of(cls, file: ParsedLogPath) -> CheckpointInstance:
        """The checkpoint that `file` is, or is a part of; `ValueError` where it is no checkpoint file."""
        if file.kind not in _FORMATS:
            raise ValueError(f"{file.name} is a {file.kind.value}, not a checkpoint")
        checkpoint_format = _FORMATS[file.kind]
        return cls(
            version=file.version,
            format=checkpoint_format,
            num_parts=file.num_parts or 1,
            name=file.name if checkpoint_format is CheckpointFormat.UUID else "",
        )

    def is_complete(self, files: Iterable[ParsedLogPath]) -> bool:
        """Whether `files`, all of this checkpoint, are the whole of it.

        Source: PROTOCOL.md, Checkpoints: a multi-part checkpoint with missing parts must be ignored.
        """
        # Parts are within 1 to num_parts: their number tells. A file name may claim ten digits of parts.
        return len({file.part or 1 for file in files}) == self.num_parts


def complete_checkpoints(files: Iterable[ParsedLogPath]) -> list[tuple[CheckpointInstance, tuple[ParsedLogPath, ...]]]:
    """The complete checkpoints among `files`, best first, each with its files in the order of their parts.

    Files that are no checkpoints and parts of incomplete checkpoints are left out.
    """
    found: defaultdict[CheckpointInstance, list[ParsedLogPath]] = defaultdict(list)
    for file in files:
        if file.kind.is_checkpoint:
            found[CheckpointInstance.of(file)].append(file)
    return [
        (instance, tuple(sorted(found[instance], key=lambda file: file.part or 1)))
        for instance in sorted(found, reverse=True)
        if instance.is_complete(found[instance])
    ]
