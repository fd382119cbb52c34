"""Where the files that a log names are: one place that says which of them may be opened. No Spark."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

from deltasnap_core.errors import DataPathError
from deltasnap_core.storage.urls import join_url, redacted, split_url, to_url

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_AS_THEY_ARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-!.~'()*:@&=+$,;/")
_SPACES_AND_CONTROLS = ("Zs", "Zl", "Zp", "Cc")


def data_file_url(path: str, table_path: str, roots: Sequence[str] = ()) -> str:
    """Return the URL, nothing encoded, of a file that a log names by a URI, relative to the table or absolute.

    roots: folders (URLs) besides that of the table that files may lie in, as those of a shallow clone do.
    Errors: DataPathError for a file that lies in none of them.
    Source: PROTOCOL.md, Add File and Remove File.
    """
    decoded = unquote(path)
    if decoded.startswith("/"):
        url = _on_file_system_of(table_path, decoded)
    elif _SCHEME.match(decoded):
        url = to_url(decoded)
    else:
        url = join_url(table_path, decoded)
    url = _normalized(url)
    if not any(is_within(url, root) for root in (table_path, *map(to_url, roots))):
        raise DataPathError(
            path=redacted(path),
            table=redacted(table_path),
            reason="it lies outside the table, and in none of the folders that the options allow (`data_roots`)",
        )
    return url


def is_within(url: str, folder: str) -> bool:
    """Whether a file lies below a folder; both with nothing like `..` in them."""
    return url.startswith(join_url(_normalized(folder), ""))


def spark_name(url: str) -> str:
    """Return a URL as Spark's `_metadata.file_path` gives it: as `java.net.URI` quotes a path."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority}{slash}{''.join(map(_quoted, path))}"


def _quoted(character: str) -> str:
    kept = character in _AS_THEY_ARE
    if ord(character) >= 128:
        kept = unicodedata.category(character) not in _SPACES_AND_CONTROLS
    return character if kept else "".join(f"%{byte:02X}" for byte in character.encode())


def is_hidden(url: str) -> bool:
    """Whether Spark passes over a file of this name, even if it is told to read it."""
    name = split_url(url)[1]
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def _on_file_system_of(table_path: str, path: str) -> str:
    scheme, _, rest = table_path.partition("://")
    return f"{scheme}://{path}" if scheme == "file" else f"{scheme}://{rest.split('/', 1)[0]}{path}"


def _normalized(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority}{slash}{posixpath.normpath(f'/{path}').lstrip('/')}"
