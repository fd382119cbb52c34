"""The files of a checkpoint, as the listing shows them, without reading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from deltasnap_core.protocol.log_files.file_names import CheckpointKind, Extension
from deltasnap_core.storage.log_store import FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProvider:
    """A complete checkpoint.

    version: the version whose state it contains.
    files:   its top-level files, all parts in order. Sidecars are not included: the checkpoint references them.
    kind:    the kind of file name; a classic name may be a V1 or a V2 checkpoint.
    format:  the format of the top-level files.
    Source: PROTOCOL.md, Checkpoints.
    """

    is_empty: ClassVar[bool] = False

    version: int
    files: tuple[FileStatus, ...]
    kind: CheckpointKind
    format: Extension

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "version": self.version,
            "files": [file.to_json() for file in self.files],
            "kind": self.kind.value,
            "format": self.format,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyCheckpointProvider:
    """No checkpoint: the commits start at version 0, so `version` is -1. It has the members of `CheckpointProvider`."""

    is_empty: ClassVar[bool] = True
    version: ClassVar[int] = -1
    files: ClassVar[tuple[FileStatus, ...]] = ()
    kind: ClassVar[None] = None
    format: ClassVar[None] = None

    def to_json(self) -> None:
        """Return None: there is no checkpoint."""


def checkpoint_from_json(
    values: Mapping[str, Any] | None, files: Iterable[FileStatus]
) -> CheckpointProvider | EmptyCheckpointProvider:
    """Return a checkpoint from the result of `to_json`, and its files.

    Errors: KeyError for a missing field, ValueError for an unknown kind.
    """
    if values is None:
        return EmptyCheckpointProvider()
    return CheckpointProvider(
        version=values["version"],
        files=tuple(files),
        kind=CheckpointKind(values["kind"]),
        format=values["format"],
    )
