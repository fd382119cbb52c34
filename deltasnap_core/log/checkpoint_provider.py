"""Which files a checkpoint consists of, known from the listing alone, without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from deltasnap_core.protocol.file_names import CheckpointKind, Extension
from deltasnap_core.storage.log_store import FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointProvider:
    """A complete checkpoint.

    `version`: the version whose state it holds. `files`: its top-level files, all parts in order; sidecars are
    named inside them. `kind`: how it is named; a classic name says nothing of its being V1 or V2.
    `format`: of the top-level files. Source: PROTOCOL.md, Checkpoints.
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
    """No checkpoint: the commits start at version 0. It has the members of a checkpoint, of version -1."""

    is_empty: ClassVar[bool] = True
    version: ClassVar[int] = -1
    files: ClassVar[tuple[FileStatus, ...]] = ()
    kind: ClassVar[None] = None
    format: ClassVar[None] = None

    def to_json(self) -> None:
        """Return None: there is no checkpoint."""


def checkpoint_from_json(values: Mapping[str, Any] | None) -> CheckpointProvider | EmptyCheckpointProvider:
    """Return what `to_json` of either class gave. Errors: KeyError for a missing field, ValueError for another kind."""
    if values is None:
        return EmptyCheckpointProvider()
    return CheckpointProvider(
        version=values["version"],
        files=tuple(FileStatus.from_json(file) for file in values["files"]),
        kind=CheckpointKind(values["kind"]),
        format=values["format"],
    )
