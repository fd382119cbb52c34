"""CheckpointInstance: which checkpoints a set of files makes up, and which of them to prefer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from deltasnap_core.protocol.file_names import CheckpointKind, ParsedLogPath


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInstance:
    """One checkpoint, whether all of its files are there or not.

    `num_parts`: 1 unless multi-part. `name`: of a UUID-named one, else empty.
    Source: PROTOCOL.md, Checkpoints (a reader may choose); Delta's `CheckpointInstance`.
    """

    version: int
    kind: CheckpointKind
    num_parts: int = 1
    name: str = ""

    @classmethod
    def of(cls, file: ParsedLogPath) -> CheckpointInstance:
        """Return the checkpoint that `file` is, or is a part of. Errors: ValueError where it is no checkpoint file."""
        if file.checkpoint_kind is None:
            raise ValueError(f"{file.name} is a {file.kind.value}, not a checkpoint")
        return cls(
            version=file.version,
            kind=file.checkpoint_kind,
            num_parts=file.num_parts or 1,
            name=file.name if file.checkpoint_kind is CheckpointKind.UUID else "",
        )

    @property
    def preference(self) -> tuple[int, int, int, str]:
        """What checkpoints are ordered by; the greatest is the one to use.

        Newer before older; at one version UUID-named before multi-part before classic, more parts before fewer, and of
        UUID-named ones the last by name.
        """
        return self.version, self.kind.rank, self.num_parts, self.name

    def is_complete(self, files: Iterable[ParsedLogPath]) -> bool:
        """Whether `files`, all of this checkpoint, are the whole of it.

        Source: PROTOCOL.md, Checkpoints: a multi-part checkpoint with missing parts must be ignored.
        """
        # Parts are within 1 to num_parts: their number tells. A file name may claim ten digits of parts.
        return len({file.part or 1 for file in files}) == self.num_parts


def complete_checkpoints(files: Iterable[ParsedLogPath]) -> list[tuple[CheckpointInstance, tuple[ParsedLogPath, ...]]]:
    """Return the complete checkpoints among `files`, best first, each with its files in the order of their parts.

    Files that are no checkpoints and parts of incomplete checkpoints are left out.
    """
    found = _by_instance(files)
    return [
        (instance, tuple(sorted(found[instance], key=lambda file: file.part or 1)))
        for instance in sorted(found, key=lambda instance: instance.preference, reverse=True)
        if instance.is_complete(found[instance])
    ]


def incomplete_checkpoints(
    files: Iterable[ParsedLogPath],
) -> list[tuple[CheckpointInstance, tuple[ParsedLogPath, ...]]]:
    """Return the checkpoints among `files` that lack parts, best first, each with the parts that are there."""
    found = _by_instance(files)
    return [
        (instance, tuple(sorted(found[instance], key=lambda file: file.part or 1)))
        for instance in sorted(found, key=lambda instance: instance.preference, reverse=True)
        if not instance.is_complete(found[instance])
    ]


def _by_instance(files: Iterable[ParsedLogPath]) -> dict[CheckpointInstance, list[ParsedLogPath]]:
    found: defaultdict[CheckpointInstance, list[ParsedLogPath]] = defaultdict(list)
    for file in files:
        if file.checkpoint_kind is not None:
            found[CheckpointInstance.of(file)].append(file)
    return found
