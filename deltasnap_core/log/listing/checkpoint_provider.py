"""The files of a checkpoint, as the listing shows them, without reading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltasnap_core.protocol.log_files.file_names import CheckpointKind, Extension
from deltasnap_core.storage.log_store import FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProvider:
    """A complete checkpoint, or none: NO_CHECKPOINT, where the commits start at version 0.

    version: the version whose state it contains; -1 for none.
    files:   its top-level files, all parts in order. Sidecars are not included: the checkpoint references them.
    kind:    the kind of file name; a classic name may be a V1 or a V2 checkpoint. None: there is no checkpoint.
    format:  the format of the top-level files. None: there is no checkpoint.
    Source: PROTOCOL.md, Checkpoints.
    """

    version: int
    files: tuple[FileStatus, ...]
    kind: CheckpointKind | None
    format: Extension | None

    @property
    def is_empty(self) -> bool:
        """Whether there is no checkpoint."""
        return not self.files

    def to_json(self) -> dict[str, Any] | None:
        """Return plain JSON values; None: there is no checkpoint."""
        if self.kind is None:
            return None
        return {
            "version": self.version,
            "files": [file.to_json() for file in self.files],
            "kind": self.kind.value,
            "format": self.format,
        }


NO_CHECKPOINT = CheckpointProvider(version=-1, files=(), kind=None, format=None)


def checkpoint_from_json(values: Mapping[str, Any] | None, files: Iterable[FileStatus]) -> CheckpointProvider:
    """Return a checkpoint from the result of `to_json`, and its files.

    Errors: KeyError for a missing field, ValueError for an unknown kind.
    """
    if values is None:
        return NO_CHECKPOINT
    return CheckpointProvider(
        version=values["version"],
        files=tuple(files),
        kind=CheckpointKind(values["kind"]),
        format=values["format"],
    )
