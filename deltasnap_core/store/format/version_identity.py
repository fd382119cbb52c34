"""The identity of a version of a log, to distinguish it from another one with the same number. Pure.

A table that is restored from a backup, or rolled back and extended, keeps its id and version numbers. Its commits
differ: by size and modification time or, if only the time differs, by the digest of their bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltasnap_core.store.format.shared_documents import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIdentity:
    """A commit: bytes, modification time (ms), in-commit timestamp (ms; None: it has none), SHA-256 of its bytes."""

    size: int
    modification_time: int
    in_commit_timestamp: int | None
    digest: str

    @classmethod
    def from_json(cls, values: JsonObject) -> CommitIdentity:
        """Return the identity from the result of `to_json`. Errors: KeyError for a missing field."""
        return cls(
            size=values["size"],
            modification_time=values["modificationTime"],
            in_commit_timestamp=values["inCommitTimestamp"],
            digest=values["digest"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for the manifest."""
        return {
            "size": self.size,
            "modificationTime": self.modification_time,
            "inCommitTimestamp": self.in_commit_timestamp,
            "digest": self.digest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionIdentity:
    """A version of a log and, by the chain, all versions stored before it without a gap.

    commit:           None: the log no longer had it, and the version was loaded from a checkpoint.
    checkpoint_files: size and modification time (ms) of that checkpoint's files, by name; empty if there is a commit.
    chain:            a digest of the previous version's chain (empty if that version is not stored) and of this
                      version.
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
        """Return the identity of the version after `previous` (None: not stored, or unknown)."""
        if commit is not None:
            checkpoint_files, own = {}, commit.digest
        else:
            own = ";".join(f"{name}:{size}:{time}" for name, (size, time) in sorted(checkpoint_files.items()))
        before = "" if previous is None else previous.chain
        chain = hashlib.sha256(f"{before}\n{own}".encode()).hexdigest()
        return cls(commit=commit, checkpoint_files=checkpoint_files, chain=chain)

    @classmethod
    def from_json(cls, values: JsonObject) -> VersionIdentity:
        """Return the identity from the result of `to_json`. Errors: KeyError for a missing field."""
        commit = values["commit"]
        return cls(
            commit=None if commit is None else CommitIdentity.from_json(commit),
            checkpoint_files={name: (size, time) for name, (size, time) in values.get("checkpointFiles", {}).items()},
            chain=values["chain"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for the manifest."""
        values: dict[str, Any] = {"commit": None if self.commit is None else self.commit.to_json()}
        if self.checkpoint_files:
            values["checkpointFiles"] = {name: list(facts) for name, facts in self.checkpoint_files.items()}
        return {**values, "chain": self.chain}
