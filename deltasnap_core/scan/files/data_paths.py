"""Resolves the files that a log names. The single authority on which of them may be opened. No Spark."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from deltasnap_core.errors import DataPathError
from deltasnap_core.storage.trusted_paths import resolve_path

_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-!.~'()*:@&=+$,;/")
_SPACES_AND_CONTROLS = ("Zs", "Zl", "Zp", "Cc")
_SAME_FOLDER = re.compile(r"/(?:\.?/)+")


def data_file_url(path: str, table_path: str, roots: Sequence[str] = ()) -> str:
    """Return the URL, without encoding, of a file that a log names by a URI, relative to the table or absolute.

    roots: other folders (URLs) than the table's that may contain files, for example those of a shallow clone.
    Errors: DataPathError for a file outside of all these folders.
    Source: PROTOCOL.md, Add File and Remove File.
    """
    try:
        return resolve_path(table_path, path, allowed_roots=roots, by_spark=True)
    except ValueError as error:
        reason = f"{error} (`data_roots` allows folders)"
        raise DataPathError(path=path, table=table_path, reason=reason) from error


def plain_url(url: str) -> str:
    """Return a URL without empty parts and `.` in its path: the file that Hadoop opens."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{_SAME_FOLDER.sub('/', rest)}"


def spark_name(url: str) -> str:
    """Return a URL as in Spark's `_metadata.file_path`, quoted like a path in `java.net.URI`."""
    scheme, separator, rest = plain_url(url).partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{separator}{authority}{slash}{''.join(map(_quoted, path))}"


def _quoted(character: str) -> str:
    kept = character in _UNQUOTED
    if ord(character) >= 128:
        kept = unicodedata.category(character) not in _SPACES_AND_CONTROLS
    return character if kept else "".join(f"%{byte:02X}" for byte in character.encode())
