"""LastCheckpointInfo: the parsed `_last_checkpoint` file. It is only a hint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from deltasnap_core.protocol.json_records import JsonRecord, Long, Texts
from deltasnap_core.protocol.json_text import decode_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpointInfo(JsonRecord):
    """The last checkpoint that a writer created, according to the file.

    size:              number of actions in the checkpoint (None or -1: unknown).
    parts:             of a multi-part checkpoint; otherwise None.
    size_in_bytes, num_of_add_files: of the checkpoint.
    checkpoint_schema, v2_checkpoint: JSON objects, unchanged.
    checksum:          MD5 in hex, verified by `parse`; None: the file has none.
    Source: PROTOCOL.md, Last Checkpoint File Schema.
    """

    json_name = "_last_checkpoint"

    version: Long
    size: Long | None = None
    parts: Long | None = None
    size_in_bytes: Long | None = None
    num_of_add_files: Long | None = None
    checkpoint_schema: Mapping[str, Any] | None = None
    v2_checkpoint: Mapping[str, Any] | None = None
    tags: Texts | None = None
    checksum: str | None = None

    @classmethod
    def parse(cls, content: bytes) -> LastCheckpointInfo:
        """Return the parsed file. Errors: ValueError if it is broken, mistyped or its checksum does not match."""
        found = cls.from_json(decode_json(content, object_pairs_hook=_reject_duplicate_keys))
        if found.checksum is not None and found.checksum not in json_checksums(content.decode()):
            raise ValueError(f"_last_checkpoint: its content does not match its checksum {found.checksum}")
        if found.version < 0:
            raise ValueError(f"_last_checkpoint.version: expected 0 or more, found {found.version}")
        return found

    def serialized(self) -> bytes:
        """Return the content of the file, with its checksum. `parse` returns an equal value, except `checksum`.

        Errors: ValueError if the two checksums of `json_checksums` differ, so that some reader would reject the file.
        """
        known = replace(self, size=-1 if self.size is None else self.size, checksum=None).to_json()
        checksum, of_spark = json_checksums(json.dumps(known))
        if checksum != of_spark:
            raise ValueError("_last_checkpoint: an array with more than ten scalars has no common checksum")
        return json.dumps({**known, "checksum": checksum}, separators=(",", ":")).encode()


def json_checksums(text: str) -> tuple[str, str]:
    """Return the MD5s, in hex, that a writer may have computed for the JSON object `text`.

    The first sorts the leaves by path, as the protocol requires. The second sorts by the whole `path=value`, as Delta
    on Spark does. They differ only for arrays of more than ten scalars (`+1=` against `+10=`).
    Errors: ValueError if `text` is not JSON or has a duplicate key. Source: PROTOCOL.md, JSON checksum.
    """
    leaves = canonical_leaves(text)
    by_path = ",".join(f"{path}={value}" for path, value in sorted(leaves))
    by_text = ",".join(sorted(f"{path}={value}" for path, value in leaves))
    return _md5(by_path), _md5(by_text)


def canonical_leaves(text: str) -> list[tuple[str, str]]:
    """Return the canonical path and value of each leaf of the JSON object `text`, without its top-level `checksum`."""
    decoded = decode_json(text, parse_int=str.encode, parse_float=str.encode, object_pairs_hook=_reject_duplicate_keys)
    try:
        return [leaf for leaf in _leaves(decoded, ()) if leaf[0] != '"checksum"']
    except RecursionError as error:
        raise ValueError("_last_checkpoint: nested too deeply") from error


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, _quoted(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, str(index)))
    else:
        yield "+".join(path), _canonical_scalar(value)


def _canonical_scalar(value: Any) -> str:
    if isinstance(value, bytes):  # a number as it is written in the text, which is its canonical form
        return value.decode()
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    # quote() keeps exactly the unreserved characters of RFC 3986, and writes upper-case hex
    return f'"{quote(text, safe="")}"'


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("_last_checkpoint: a key occurs twice in one object")
    return values
