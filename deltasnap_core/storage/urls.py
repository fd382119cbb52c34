"""What a user types for a table -> the full URL that the core knows it by."""

from __future__ import annotations

import os
import re

from deltasnap_core.redaction import learn_url, redacted

__all__ = ["is_local", "is_url", "join_url", "local_path", "redacted", "split_url", "to_url"]

# Two letters at least: `C:/data` is a path. After `::` comes the URL that a protocol of fsspec's is chained to.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/|:)")
_ALIASES = {"s3a": "s3", "s3n": "s3", "local": "file", "gcs": "gs"}


def to_url(path_or_url: str | os.PathLike[str]) -> str:
    """Return the full URL of a local path or a URL, without a slash at its end.

    A local path is made absolute (`~` expanded); `file:/x` and `file://localhost/x` become `file:///x`;
    `s3a://` and `s3n://` become `s3://`. Nothing is decoded or encoded: `%20` in a path is a percent sign, 2 and 0.
    Credentials in it are secrets of this process from here on (`redaction`). Raises ValueError on an empty path.
    """
    text = os.fspath(path_or_url)
    if not text:
        raise ValueError("The path of a table must not be empty")
    learn_url(text)
    if not (match := _SCHEME.match(text)):
        return _local_url(text)
    scheme = match[1].lower()
    scheme, rest = _ALIASES.get(scheme, scheme), text[match.end(1) + 1 :]
    if scheme == "file":
        return _local_url(re.sub(r"^//(localhost)?(?=/)", "", rest))
    return f"{scheme}:{rest.rstrip('/') or '//'}"


def scheme_names(scheme: str) -> tuple[str, ...]:
    """Return the schemes that `to_url` takes for one, that one first."""
    return scheme, *(alias for alias, name in _ALIASES.items() if name == scheme)


def is_url(text: str) -> bool:
    """Return whether a user typed a URL (`file:/x` is one), rather than a local path."""
    return _SCHEME.match(text) is not None


def join_url(folder: str, name: str) -> str:
    """Return the URL of `name` (which may hold slashes) in a folder."""
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"


def split_url(url: str) -> tuple[str, str]:
    """Return the URL of the folder and the name in it: `join_url` undone."""
    folder, _, name = url.rpartition("/")
    return (f"{folder}/" if folder.endswith((":/", "://")) else folder), name


def is_local(url: str) -> bool:
    """Whether the URL is that of a file on this machine."""
    return url.startswith("file:")


def local_path(url: str) -> str:
    """Return the path of a `file:` URL."""
    return url.removeprefix("file://")


def _local_url(path: str) -> str:
    # abspath rather than resolve: a table reached through a symlink keeps the name that its user gave it.
    absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    return f"file:///{absolute.lstrip('/')}"
