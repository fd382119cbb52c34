"""Groups files into checkpoints, and orders checkpoints by preference.

Source: PROTOCOL.md, Checkpoints (a reader may choose); Delta's `CheckpointInstance`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from deltasnap_core.protocol.log_files.file_names import CheckpointKind, ParsedLogPath


def complete_checkpoints(files: Iterable[ParsedLogPath]) -> list[tuple[ParsedLogPath, ...]]:
    """Return the complete checkpoints among `files`, best first: the files of each, in part order.

    Other files and parts of incomplete checkpoints are left out.
    """
    return [parts for parts in _best_first(files) if _is_complete(parts)]


def incomplete_checkpoints(files: Iterable[ParsedLogPath]) -> list[tuple[ParsedLogPath, ...]]:
    """Return the checkpoints among `files` that lack parts, best first: the existing parts of each."""
    return [parts for parts in _best_first(files) if not _is_complete(parts)]


def _is_complete(parts: Sequence[ParsedLogPath]) -> bool:
    """Return whether the files of a checkpoint are complete.

    Source: PROTOCOL.md, Checkpoints: a multi-part checkpoint with missing parts must be ignored.
    """
    # Parts are within 1 to num_parts, so comparing their number suffices. A file name may claim a ten-digit number of
    # parts.
    return len({file.part or 1 for file in parts}) == (parts[0].num_parts or 1)


def _best_first(files: Iterable[ParsedLogPath]) -> Iterator[tuple[ParsedLogPath, ...]]:
    """Yield the files of each checkpoint, best first, in part order."""
    found: defaultdict[tuple[int, int, int, str], list[ParsedLogPath]] = defaultdict(list)
    for file in files:
        if (kind := file.checkpoint_kind) is not None:
            name = file.name if kind is CheckpointKind.UUID else ""
            found[file.version, kind.rank, file.num_parts or 1, name].append(file)
    # Newer versions first. Within a version: UUID-named, then multi-part, then classic; more parts first; the last name
    # first.
    for preference in sorted(found, reverse=True):
        yield tuple(sorted(found[preference], key=lambda file: file.part or 1))
