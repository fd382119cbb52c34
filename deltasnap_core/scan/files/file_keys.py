"""Keys of files as SQL, for decisions about deletion: two spellings of one file always share a key. No Spark.

A key is coarser than the identity of a file on any storage. It ignores the scheme and its aliases, the authority, `.`,
`..`, empty parts, the kind of slash, and upper case. A path with escapes also has the key of its raw spelling. So a
comparison by key may keep a file that is not needed, but never misses a needed one. A path outside of the table's
folder may still lead into it, through a mount, a link or another address of the storage, and `..` after a link leads
elsewhere. Therefore such a path also has its file name as a key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal
from unicodedata import normalize

from deltasnap_core.rules.paths import decoded_sql
from deltasnap_core.rules.texts.sql_text import let_sql, string_sql
from deltasnap_core.storage.urls import scheme_names

UNRESOLVED = "?"
"""The key of a path that cannot be resolved: it may be any file."""

_HAS_SCHEME = string_sql("^[a-z][a-z0-9+.-]+:[/:]")
_HAS_PARENT = string_sql(r"(^|/)\.\.(/|$)")
_CANNOT_BE = string_sql(r"[\x00\x{fffd}]")
_BEFORE_QUERY = "substring_index(substring_index(name, '?', 1), '#', 1)"
_NORMAL_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


class FileKeys:
    """Returns SQL for the keys of the files of one table. Arguments are SQL too.

    A key that starts with a slash is a path below the table. Any other key is a file name, or UNRESOLVED.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        """Create the keys of a table.

        roots: URLs that lead to the table's folder; relative paths start from the first.
        """
        self._table_path = roots[0]
        self._folders = list(dict.fromkeys(map(normal_path, roots)))

    def of_logged(self, path: str) -> str:
        """Return the keys (array, not empty) of a path in the log, decoded and raw."""
        forms = f"array_distinct(array({self._decoded(path)}, {path}))"
        return f"array_distinct(flatten(transform({forms}, path -> {self._keys('path')})))"

    def of_listed(self, path: str) -> str:
        """Return the key of a listed file from its path relative to the table."""
        return _normal(f"concat('/', {_lower(path)})")

    def of_name(self, path: str) -> str:
        """Return the key of a listed file from its name."""
        return f"substring_index({_lower(path)}, '/', -1)"

    def is_inside(self, path: str) -> str:
        """Return whether a path in the log leads to a file below the table."""
        return f"exists({self._keys(self._decoded(path))}, key -> startswith(key, '/'))"

    def shown(self, path: str) -> str:
        """Return a path in the log for display: decoded, and relative if it is written as a path below the table."""
        scheme, _, rest = self._table_path.partition("://")
        root = f"file:{rest}/" if scheme == "file" else f"{self._table_path}/"
        shown = f"if(startswith(shown, {string_sql(root)}), substring(shown, {len(root) + 1}), shown)"
        return let_sql("shown", self._decoded(path), shown)

    def _decoded(self, path: str) -> str:
        return decoded_sql(path, self._table_path)

    def _keys(self, path: str) -> str:
        whole = f"regexp_replace({_lower(path)}, {_own_address(self._table_path)}, '/')"
        full = f"if(startswith(whole, '/'), whole, concat({string_sql(self._folders[0] + '/')}, whole))"
        inside = f"if(whole rlike {_HAS_SCHEME}, null, {let_sql('resolved', _normal(full), self._below('resolved'))})"
        name = f"if(inside is null or whole rlike {_HAS_PARENT}, substring_index(whole, '/', -1), null)"
        all_keys = let_sql("name", name, f"array(inside, name, {_BEFORE_QUERY})")
        found = f"filter({all_keys}, key -> key is not null and key not in ('', '/', '.', '..'))"
        is_none = f"whole is null or whole rlike {_CANNOT_BE} or size(found) = 0"
        result = let_sql("found", let_sql("inside", inside, found), f"if({is_none}, array('{UNRESOLVED}'), found)")
        return let_sql("whole", whole, result)

    def _below(self, full: str) -> str:
        """Return a full path relative to the table's folder, with a leading slash; null: it is not below the folder."""
        cases = (
            f"when startswith({full}, {string_sql(folder + '/')}) then substring({full}, {len(folder) + 1})"
            for folder in self._folders
        )
        return f"case {' '.join(cases)} end"


def spellings(path: str) -> list[str]:
    """Return the paths by which a log may name a listed file: some file systems change the Unicode normal form.

    Empty for a name that is not UTF-8: no log can name it, and it cannot be displayed.
    """
    if any("\ud800" <= character <= "\udfff" for character in path):
        return []
    return list(dict.fromkeys((path, *(normalize(form, path) for form in _NORMAL_FORMS))))


def normal_path(url: str) -> str:
    """Return the path of a URL in the form of a key: a slash before each part, empty for the root folder."""
    path = url.partition("://")[2].partition("/")[2]
    parts = [part for part in path.lower().replace("\\", "/").split("/") if part not in ("", ".")]
    return "".join(f"/{part}" for part in parts)


def _lower(path: str) -> str:
    return f"replace(lower({path}), {string_sql(chr(92))}, '/')"


def _normal(path: str) -> str:
    """Return a path that starts with a slash, without `.`, `..` and empty parts."""
    step = (
        "case when part in ('', '.') then done when part = '..' then slice(done, 1, greatest(size(done) - 1, 0))"
        " else concat(done, array(part)) end"
    )
    parts = f"aggregate(split({path}, '/'), cast(array() as array<string>), (done, part) -> {step})"
    return f"concat('/', array_join({parts}, '/'))"


def _own_address(table_path: str) -> str:
    """Return a regular expression for the scheme and authority that a path of the table may start with, and a slash."""
    scheme, _, rest = table_path.lower().partition("://")
    if scheme == "file":
        return string_sql(r"^(?:file|local):(?://(?:localhost)?)?/")
    names = "|".join(map(re.escape, scheme_names(scheme)))
    return string_sql(rf"^(?:{names})://{re.escape(rest.partition('/')[0])}/")
