"""WrittenCheckpoint: the result of `DeltaLog.checkpoint`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """The checkpoint of a version.

    is_new:            whether this call wrote it; False: it existed, and nothing was written.
    kind:              `classic`, `multipart`, or `uuid` for a V2 checkpoint with a UUID in its name.
    files:             its top-level files, then its sidecars (of a new checkpoint only).
    num_of_actions:    the number of its actions, including those of sidecars; None: it existed.
    num_of_add_files:  the number of its live files; None: it existed.
    is_hint_written:   whether this call wrote `_last_checkpoint`. False if a newer checkpoint exists.
    """

    version: int
    is_new: bool
    kind: Literal["classic", "multipart", "uuid"]
    files: tuple[FileStatus, ...]
    num_of_actions: int | None = None
    num_of_add_files: int | None = None
    is_hint_written: bool = False

    @classmethod
    def existing(cls, checkpoint: CheckpointProvider) -> WrittenCheckpoint:
        """Return the result for a checkpoint that existed."""
        assert checkpoint.kind is not None  # only NO_CHECKPOINT has none
        return cls(version=checkpoint.version, is_new=False, kind=checkpoint.kind.value, files=checkpoint.files)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "version": self.version,
            "is_new": self.is_new,
            "kind": self.kind,
            "files": [file.name for file in self.files],
            "size_in_bytes": self.size_in_bytes,
            "num_of_actions": self.num_of_actions,
            "num_of_add_files": self.num_of_add_files,
            "is_hint_written": self.is_hint_written,
        }
