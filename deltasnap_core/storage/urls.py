"""Converts the path or URL that a user types to the full URL that the core uses."""

from __future__ import annotations

import os
import re

from deltasnap_core.redaction import learn_url

# At least two letters: `C:/data` is a path. `::` chains protocols of fsspec: the inner URL follows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/|:)")
_ALIASES = {"s3a": "s3", "s3n": "s3", "local": "file", "gcs": "gs"}


def to_url(path_or_url: str | os.PathLike[str]) -> str:
    """Return the full URL of a local path or a URL, without a slash at its end.

    A local path becomes absolute (`~` is expanded). `file:/x` and `file://localhost/x` become `file:///x`; `s3a://` and
    `s3n://` become `s3://`. Nothing is decoded or encoded: `%20` in a path stays as it is.
    Credentials in the URL become secrets of this process (`redaction`). Errors: ValueError for an empty path.
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
    """Return the schemes that `to_url` converts to `scheme`, including `scheme` itself, which is first."""
    return scheme, *(alias for alias, name in _ALIASES.items() if name == scheme)


def is_url(text: str) -> bool:
    """Return whether a text is a URL (`file:/x` is one) and not a local path."""
    return _SCHEME.match(text) is not None


def join_url(folder: str, name: str) -> str:
    """Return the URL of `name` (which may contain slashes) in a folder."""
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"


def split_url(url: str) -> tuple[str, str]:
    """Return the URL of the folder and the name in it: the inverse of `join_url`."""
    folder, _, name = url.rpartition("/")
    return (f"{folder}/" if folder.endswith((":/", "://")) else folder), name


def is_hidden(url: str) -> bool:
    """Return whether Spark skips a file of this name, even if the file is requested by name."""
    name = split_url(url)[1]
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def is_local(url: str) -> bool:
    """Return whether a URL is that of a file on this machine."""
    return url.startswith("file:")


def local_path(url: str) -> str:
    """Return the path of a `file:` URL."""
    return url.removeprefix("file://")


def _local_url(path: str) -> str:
    # abspath, not resolve: a table that is reached through a symbolic link keeps the name that the user gave.
    absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    return f"file:///{absolute.lstrip('/')}"
