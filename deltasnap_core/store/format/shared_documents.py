"""JSON objects that many versions share most of, stored once: pure.

A version's metadata, application transactions, domains and list of commits differ little from those of the version
before. A part is kept in the manifest itself while it is small. A larger one is a shared document, named by the digest
of its content, and the manifest holds only what differs from it; when that grows, a new document is begun. So a
manifest stays small whatever the size of the part, and reading it takes one more read at most for each part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INLINE_BYTES = 1024
"""A part up to this size stays in the manifest."""

PATCH_BYTES = 8192
"""What differs from a shared document takes this much in a manifest at most."""

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A JSON object: the document `shared` (None: an empty one), with `entries` set and then `removed` left out."""

    entries: JsonObject = field(default_factory=dict)
    shared: str | None = None
    removed: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, values: JsonObject) -> Part:
        """Return the value from what `to_json` gave."""
        shared = values.get("shared")
        if shared is not None and not isinstance(shared, str):
            raise ValueError(f"expected the name of a shared document, found {shared!r}")
        return cls(entries=dict(values["entries"]), shared=shared, removed=tuple(values.get("removed", ())))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, as the manifest has them."""
        found: dict[str, Any] = {"entries": dict(self.entries)}
        if self.shared is not None:
            found["shared"] = self.shared
        if self.removed:
            found["removed"] = list(self.removed)
        return found

    def resolve(self, documents: Mapping[str, JsonObject]) -> dict[str, Any]:
        """Return the whole object, its keys in ascending order; `documents` by digest holds the shared one.

        Errors: KeyError where the shared document is not among them.
        """
        whole = dict(documents[self.shared]) if self.shared is not None else {}
        whole.update(self.entries)
        for key in self.removed:
            whole.pop(key, None)
        return {key: whole[key] for key in sorted(whole)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPart:
    """A part, and the shared document that must be written before a manifest names it (None: it is there)."""

    part: Part
    document: JsonObject | None = None


def encode(value: JsonObject) -> bytes:
    """Return the one text of an object: the same content is the same bytes, whoever writes it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(content: bytes) -> JsonObject:
    """Return the object that `encode` made the text of."""
    value: JsonObject = json.loads(content)
    return value


def digest(content: bytes) -> str:
    """Name a shared document by its content."""
    return hashlib.sha256(content).hexdigest()[:32]


def split(value: JsonObject, previous: Part | None, documents: Mapping[str, JsonObject]) -> SplitPart:
    """Split an object into what a manifest holds and what is shared, on top of what the version before shares.

    documents: by digest; where it has the previous part's document, a small difference from that is enough.
    """
    shared = None if previous is None else previous.shared
    if shared is not None and shared in documents:
        patch = _patch(value, documents[shared], shared)
        if patch is not None:
            return SplitPart(part=patch)
    content = encode(value)
    if len(content) <= INLINE_BYTES:
        return SplitPart(part=Part(entries=value))
    return SplitPart(part=Part(shared=digest(content)), document=value)


def _patch(value: JsonObject, document: JsonObject, name: str) -> Part | None:
    removed = tuple(sorted(key for key in document if key not in value))
    changed = {key: entry for key, entry in value.items() if key not in document or document[key] != entry}
    part = Part(entries=changed, shared=name, removed=removed)
    return part if len(encode(part.to_json())) <= PATCH_BYTES else None
