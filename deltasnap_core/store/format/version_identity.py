"""The identity of a version of a log, to distinguish it from another one with the same number. Pure.

A table that is restored from a backup, or rolled back and extended, keeps its id and version numbers. Its commits
differ: by size and modification time or, if only the time differs, by the digest of their bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltasnap_core.protocol.json_records import JsonRecord, Long


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity(JsonRecord):
    """A commit: bytes, modification time (ms), in-commit timestamp (ms; None: it has none), SHA-256 of its bytes."""

    json_name = "identity.commit"

    size: Long
    modification_time: Long
    in_commit_timestamp: Long | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionIdentity(JsonRecord):
    """A version of a log and, by the chain, all versions stored before it without a gap.

    commit:           None: the log no longer had it, and the version was loaded from a checkpoint.
    checkpoint_files: size and modification time (ms) of that checkpoint's files, by name; empty if there is a commit.
    chain:            a digest of the previous version's chain (empty if that version is not stored) and of this
                      version.
    """

    json_name = "identity"

    commit: CommitIdentity | None
    checkpoint_files: Mapping[str, tuple[Long, Long]] = field(default_factory=dict)
    chain: str

    @classmethod
    def following(
        cls,
        previous: VersionIdentity | None,
        commit: CommitIdentity | None,
        checkpoint_files: Mapping[str, tuple[int, int]],
    ) -> VersionIdentity:
        """Return the identity of the version after `previous` (None: not stored, or unknown)."""
        if commit is not None:
            checkpoint_files, own = {}, commit.digest
        else:
            own = ";".join(f"{name}:{size}:{time}" for name, (size, time) in sorted(checkpoint_files.items()))
        before = "" if previous is None else previous.chain
        chain = hashlib.sha256(f"{before}\n{own}".encode()).hexdigest()
        return cls(commit=commit, checkpoint_files=checkpoint_files, chain=chain)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, without `checkpointFiles` if there are none."""
        values = JsonRecord.to_json(self)
        if not self.checkpoint_files:
            del values["checkpointFiles"]
        return values
