"""Checks paths from a log. They are untrusted data: each passes this check before the file is opened.

Anyone who may write to the table may write its log, and may name any file that the reader has access to. So a named
file must lie inside the table, or inside a folder that the caller trusts, such as the source of a shallow clone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from deltasnap_core.redaction import redacted
from deltasnap_core.storage.urls import is_local, is_url, join_url, to_url

_MAX_SHOWN = 200


def resolve_path(
    root: str,
    path: str,
    *,
    base: str | None = None,
    allowed_roots: Sequence[str] = (),
    by_spark: bool = False,
) -> str:
    """Return the full URL of a file that a log names, after checking that it may be opened.

    root:          URL of the folder that must contain the file: the table's, or that of its sidecars.
    path:          as in the log: URI-encoded, relative to `base` (None: to `root`), or absolute with or without a
                   scheme. It is percent-decoded once, as the protocol requires, and then checked.
    allowed_roots: paths or URLs of other folders whose files may be opened. They may be percent-encoded, as in a log.
                   A path with `..` is opened only if its target is in one of them.
    by_spark:      whether only Spark opens local files. Then `::`, which a partition's value may contain, is harmless.
    Symbolic links are followed: anyone who can create one in the table's folder can also put the file there.
    Errors: ValueError, with the path, for one outside of these folders, or an invalid one.
    Source: PROTOCOL.md, Add File and Remove File; Sidecar File Information; Deletion Vector Descriptor Schema.
    """
    try:
        decoded = unquote(path, errors="strict")
        decoded.encode()
    except UnicodeError as error:
        raise _refused(path, "is not UTF-8") from error
    if not decoded or "\0" in decoded:
        raise _refused(path, "cannot be the path of a file")
    if "::" in decoded and not (by_spark and is_local(root) and ":/" not in decoded):
        # fsspec treats it as a chain of protocols, the last of which may be anything
        raise _refused(path, "contains '::'")
    url = _absolute(root, base or root, decoded)
    if ".." in re.split(r"[/\\]", decoded):
        # A storage may take `..` literally, so only an allowed root counts, and what is opened has no `..`.
        resolved = _without_parents(url)
        if resolved is None or not _is_allowed(resolved, allowed_roots):
            raise _refused(path, "leaves its folder through '..'")
        return resolved
    if not (url.startswith(join_url(root, "")) or _is_allowed(url, allowed_roots)):
        raise _refused(path, f"is outside {redacted(root)}")
    return url


def _is_allowed(url: str, allowed_roots: Sequence[str]) -> bool:
    return any(url.startswith(join_url(folder, "")) for root in allowed_roots for folder in _readings(root))


def _readings(folder: str) -> tuple[str, ...]:
    """Return the URLs that the text of an allowed root may mean: as it is, and percent-decoded."""
    literal = to_url(folder)
    decoded = unquote(literal)
    is_same_depth = decoded.count("/") == literal.count("/") and not {"..", "."} & {*decoded.split("/")}
    return (literal, decoded) if is_same_depth else (literal,)


def _without_parents(url: str) -> str | None:
    """Return a URL with its `..` resolved; None: they lead above the root of the storage, or have backslashes."""
    scheme, separator, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif ".." in part.split("\\"):
            return None
        elif part not in ("", "."):
            parts.append(part)
    return f"{scheme}{separator}{authority}/{'/'.join(parts)}"


def _absolute(root: str, base: str, path: str) -> str:
    if is_url(path):
        return to_url(path)
    if path.startswith("/"):
        scheme, _, rest = root.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}{path}"
    return join_url(base, path)


def _refused(path: str, problem: str) -> ValueError:
    shown = ascii(redacted(path))
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
    return ValueError(f"the path {shown} {problem}, so the file is not opened")
