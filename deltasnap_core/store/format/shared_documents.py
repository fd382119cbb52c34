"""JSON objects that are mostly equal between versions, stored once. Pure.

A version's metadata, application transactions, domains and list of commits differ little from those of the previous
version. A small part is stored in the manifest itself. A larger part becomes a shared document, named by the digest of
its content; the manifest then has only the differences. If these grow too large, a new document is written. So a
manifest stays small for any size of a part, and each part takes at most one more read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltasnap_core.protocol.json_records import JsonRecord

INLINE_BYTES = 1024
"""A part up to this size is stored in the manifest."""

PATCH_BYTES = 8192
"""The maximum size, in a manifest, of the differences from a shared document."""

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(JsonRecord):
    """A JSON object: the document `shared` (None: empty), with `entries` set and the keys in `removed` left out."""

    json_name = "part"

    entries: JsonObject = field(default_factory=dict)
    shared: str | None = None
    removed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, without `removed` if no key is."""
        values = JsonRecord.to_json(self)
        if not self.removed:
            del values["removed"]
        return values

    @property
    def is_small(self) -> bool:
        """Whether a manifest holds this part. If not, its object needs another shared document."""
        if self.shared is None:
            return len(encode_document(self.entries)) <= INLINE_BYTES
        return len(encode_document(self.to_json())) <= PATCH_BYTES

    def extended(self, entries: JsonObject) -> Part:
        """Return the part of the same object with entries added or replaced. Takes no time for the rest of it."""
        removed = tuple(key for key in self.removed if key not in entries)
        return replace(self, entries={**self.entries, **entries}, removed=removed)

    def resolve(self, documents: Mapping[str, JsonObject]) -> dict[str, Any]:
        """Return the whole object with sorted keys. documents: by digest; must include the shared document.

        Errors: KeyError if the shared document is missing.
        """
        whole = dict(documents[self.shared]) if self.shared is not None else {}
        whole.update(self.entries)
        for key in self.removed:
            whole.pop(key, None)
        return {key: whole[key] for key in sorted(whole)}


def encode_document(value: JsonObject) -> bytes:
    """Return the canonical text of an object: equal content always gives equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode_document(content: bytes) -> JsonObject:
    """Return the object from the result of `encode_document`."""
    value: JsonObject = json.loads(content)
    return value


def document_digest(content: bytes) -> str:
    """Return the name of a shared document, a digest of its content."""
    return hashlib.sha256(content).hexdigest()[:32]


def part_of(value: JsonObject, previous: Part | None, documents: Mapping[str, JsonObject]) -> Part:
    """Return an object as a part. Reuses the document of the previous part, or names a new one by its content.

    documents: by digest. If they include the previous part's document, a small difference is stored as a patch.
    """
    shared = None if previous is None else previous.shared
    if shared is not None and shared in documents:
        patch = _patch(value, documents[shared], shared)
        if patch.is_small:
            return patch
    whole = Part(entries=value)
    return whole if whole.is_small else Part(shared=document_digest(encode_document(value)))


def _patch(value: JsonObject, document: JsonObject, name: str) -> Part:
    removed = tuple(sorted(document.keys() - value.keys()))
    known = document.items()
    changed = dict(entry for entry in value.items() if entry not in known)
    return Part(entries=changed, shared=name, removed=removed)
