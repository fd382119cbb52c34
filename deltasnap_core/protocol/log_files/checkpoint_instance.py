"""CheckpointInstance: groups files into checkpoints, and orders checkpoints by preference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deltasnap_core.protocol.log_files.file_names import CheckpointKind, ParsedLogPath


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInstance:
    """A checkpoint, complete or not.

    num_parts: 1 unless multi-part.
    name:      of a UUID-named checkpoint; otherwise empty.
    Source: PROTOCOL.md, Checkpoints (a reader may choose); Delta's `CheckpointInstance`.
    """

    version: int
    kind: CheckpointKind
    num_parts: int = 1
    name: str = ""

    @classmethod
    def of(cls, file: ParsedLogPath) -> CheckpointInstance:
        """Return the checkpoint that `file` belongs to. Errors: ValueError if it is not a checkpoint file."""
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
        """The sort key of checkpoints; the greatest is the best.

        Newer versions first. Within a version: UUID-named, then multi-part, then classic; more parts first; the last
        name first.
        """
        return self.version, self.kind.rank, self.num_parts, self.name

    def is_complete(self, files: Iterable[ParsedLogPath]) -> bool:
        """Return whether `files`, which all belong to this checkpoint, are complete.

        Source: PROTOCOL.md, Checkpoints: a multi-part checkpoint with missing parts must be ignored.
        """
        # Parts are within 1 to num_parts, so comparing their number suffices. A file name may claim a ten-digit number
        # of parts.
        return len({file.part or 1 for file in files}) == self.num_parts


def complete_checkpoints(files: Iterable[ParsedLogPath]) -> list[tuple[CheckpointInstance, tuple[ParsedLogPath, ...]]]:
    """Return the complete checkpoints among `files`, best first, each with its files in part order.

    Other files and parts of incomplete checkpoints are left out.
    """
    return [(instance, parts) for instance, parts in _best_first(files) if instance.is_complete(parts)]


def incomplete_checkpoints(
    files: Iterable[ParsedLogPath],
) -> list[tuple[CheckpointInstance, tuple[ParsedLogPath, ...]]]:
    """Return the checkpoints among `files` that lack parts, best first, each with its existing parts."""
    return [(instance, parts) for instance, parts in _best_first(files) if not instance.is_complete(parts)]


def _best_first(files: Iterable[ParsedLogPath]) -> Iterator[tuple[CheckpointInstance, tuple[ParsedLogPath, ...]]]:
    """Yield the checkpoints among files, best first, each with its files in part order."""
    found: defaultdict[CheckpointInstance, list[ParsedLogPath]] = defaultdict(list)
    for file in files:
        if file.checkpoint_kind is not None:
            found[CheckpointInstance.of(file)].append(file)
    for instance in sorted(found, key=lambda instance: instance.preference, reverse=True):
        yield instance, tuple(sorted(found[instance], key=lambda file: file.part or 1))
