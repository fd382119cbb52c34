"""What tells a version of a log from another of the same number: pure.

A table restored from a backup, or rolled back and written on, keeps its id and its version numbers. What its commits
are tells it apart: the size and modification time of each, and the digest of its bytes where the times are others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity:
    """One commit: bytes, modification time (ms), in-commit timestamp (ms; None: it has none), SHA-256 of its bytes."""

    size: int
    modification_time: int
    in_commit_timestamp: int | None
    digest: str

    @classmethod
    def from_json(cls, values: JsonObject) -> CommitIdentity:
        """Return the identity from what `to_json` gave. Errors: KeyError where a field is missing."""
        return cls(
            size=values["size"],
            modification_time=values["modificationTime"],
            in_commit_timestamp=values["inCommitTimestamp"],
            digest=values["digest"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as the manifest has them."""
        return {
            "size": self.size,
            "modificationTime": self.modification_time,
            "inCommitTimestamp": self.in_commit_timestamp,
            "digest": self.digest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionIdentity:
    """One version of a log, and by the chain all the versions stored before it without a gap.

    commit:           None: the log had lost it, and the version comes from a checkpoint.
    checkpoint_files: size and modification time (ms) by name, of that checkpoint; empty where there is the commit.
    chain:            digest of the chain of the version before (empty where that is not stored) and of this one.
    """

    commit: CommitIdentity | None
    checkpoint_files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    chain: str

    @classmethod
    def following(
        cls,
        previous: VersionIdentity | None,
        commit: CommitIdentity | None,
        checkpoint_files: Mapping[str, tuple[int, int]],
    ) -> VersionIdentity:
        """Return the identity of the version after `previous` (None: that is not stored, or not known)."""
        if commit is not None:
            checkpoint_files, own = {}, commit.digest
        else:
            own = ";".join(f"{name}:{size}:{time}" for name, (size, time) in sorted(checkpoint_files.items()))
        before = "" if previous is None else previous.chain
        chain = hashlib.sha256(f"{before}\n{own}".encode()).hexdigest()
        return cls(commit=commit, checkpoint_files=checkpoint_files, chain=chain)

    @classmethod
    def from_json(cls, values: JsonObject) -> VersionIdentity:
        """Return the identity from what `to_json` gave. Errors: KeyError where a field is missing."""
        commit = values["commit"]
        return cls(
            commit=None if commit is None else CommitIdentity.from_json(commit),
            checkpoint_files={name: (size, time) for name, (size, time) in values.get("checkpointFiles", {}).items()},
            chain=values["chain"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as the manifest has them."""
        values: dict[str, Any] = {"commit": None if self.commit is None else self.commit.to_json()}
        if self.checkpoint_files:
            values["checkpointFiles"] = {name: list(facts) for name, facts in self.checkpoint_files.items()}
        return {**values, "chain": self.chain}
