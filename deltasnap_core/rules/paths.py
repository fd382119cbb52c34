"""The key of a path of the log: its canonical form, decoded once. In SQL and in Arrow, without Spark.

An absolute path without a scheme belongs to the table's file system; `file:///x` becomes `file:/x`. The key is the path
decoded once, as bytes. Each `%` with two hexadecimal digits becomes one byte. Everything else stays, including `+` and
a `%` without digits. If the bytes are not UTF-8, the key is the path as it is, because `%FE` and `%FF` are two files.
All other spellings of one path have the same key.
Source: PROTOCOL.md, Add File and Remove File; Action Reconciliation.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.rules.texts.sql_text import string_sql

_FILE_URL = "file:///"
_HEX_PAIR = "[0-9A-Fa-f]{2}"
_HEX_BYTES = re.compile(_HEX_PAIR.encode())


def canonical_path_sql(raw: str, log_path: str) -> str:
    """Return SQL for the canonical form of a path. raw: SQL."""
    root = string_sql(_file_system_of(log_path))
    return (
        f"case when startswith({raw}, '/') then concat({root}, {raw})"
        f" when startswith({raw}, '{_FILE_URL}') then concat('file:', substring({raw}, {len(_FILE_URL)}))"
        f" else {raw} end"
    )


def have_equal_keys(log_path: str, other: str) -> bool:
    """Return whether a path has the same key in two logs: absolute paths belong to the file system of the log."""
    return _file_system_of(log_path) == _file_system_of(other)


def path_key_sql(raw: str, log_path: str) -> str:
    """Return SQL for the key of a path (string): its canonical form, decoded once. Spellings of one file have one key.

    raw: SQL of the path as in the log. log_path: URL of the log, which resolves paths that start with a slash. A path
    whose decoded form is not UTF-8 stays encoded.
    Source: PROTOCOL.md, Add File and Remove File.
    """
    path = canonical_path_sql(raw, log_path)
    decoded = f"try_validate_utf8({_decoded_bytes_sql(path)})"
    return f"case when contains({raw}, '%') then coalesce({decoded}, {path}) else {path} end"


def decoded_sql(raw: str, log_path: str) -> str:
    """Return SQL for the canonical form of a path, decoded once. Invalid UTF-8 becomes U+FFFD. raw: SQL."""
    path = canonical_path_sql(raw, log_path)
    return f"case when contains({raw}, '%') then make_valid_utf8({_decoded_bytes_sql(path)}) else {path} end"


def _decoded_bytes_sql(path: str) -> str:
    # Not `url_decode`: it rejects a path with one invalid escape, and accepts digits of other scripts. Work in
    # hexadecimal until the end: a character beyond ASCII may consist of escaped and plain bytes.
    piece = (
        "case when place = 0 then hex(piece)"
        f" when piece rlike '^{_HEX_PAIR}' then concat(left(piece, 2), hex(substring(piece, 3)))"
        " else concat('25', hex(piece)) end"
    )
    pieces = f"transform(split({path}, '%'), (piece, place) -> {piece})"
    # Bytes, because not every engine has strings that are not UTF-8.
    return f"unhex(array_join({pieces}, ''))"


def canonical_paths(paths: pa.StringArray, log_path: str) -> pa.StringArray:
    """Return the canonical forms of paths, as `canonical_path_sql`."""
    found = paths
    is_absolute, is_url = pc.starts_with(paths, "/"), pc.starts_with(paths, _FILE_URL)
    if pc.any(is_absolute).as_py():
        root = pa.scalar(_file_system_of(log_path), pa.string())
        found = pc.if_else(is_absolute, pc.binary_join_element_wise(root, found, ""), found)
    if pc.any(is_url).as_py():
        rest = pc.utf8_slice_codeunits(paths, len(_FILE_URL) - 1)
        found = pc.if_else(is_url, pc.binary_join_element_wise("file:", rest, ""), found)
    return found


def path_keys(paths: pa.StringArray, log_path: str) -> pa.StringArray:
    """Return the keys of paths as text, in order, as `path_key_sql`. Null stays null."""
    keys = canonical_paths(paths, log_path)
    is_encoded = pc.match_substring(paths, "%") if _has_percent(paths) else pa.array([False])
    if pc.any(is_encoded).as_py():
        keys = pc.replace_with_mask(keys, is_encoded, _decoded(keys.filter(is_encoded)))
    return keys


def _has_percent(paths: pa.StringArray) -> bool:
    text = paths.buffers()[2]  # may include text outside of the slice: then the search is wasted, not wrong
    return text is not None and b"%" in text.to_pybytes()


def _decoded(paths: pa.StringArray) -> pa.StringArray:
    """Return paths decoded once, or unchanged. Each distinct escape is replaced everywhere, that of `%` last."""
    found = paths.cast(pa.binary())
    pieces = pc.split_pattern(found, "%").flatten()
    escapes = {bytes(digits) for digits in pc.unique(pc.binary_slice(pieces, 0, 2)).to_pylist()}
    for digits in sorted(filter(_HEX_BYTES.fullmatch, escapes), key=lambda digits: digits == b"25"):
        found = pc.replace_substring(found, b"%" + digits, bytes.fromhex(digits.decode()))
    # Decode one by one if a replacement may form a new escape (`%2%35`), or if the bytes are not UTF-8.
    is_regular = pc.equal(pc.count_substring(paths, "%"), pc.count_substring_regex(paths, f"%{_HEX_PAIR}"))
    if pc.all(is_regular).as_py():
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    return pa.array(map(_unquoted, paths.to_pylist()), pa.string())


def _unquoted(path: str) -> str:
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        return path


def _file_system_of(log_path: str) -> str:
    scheme, _, rest = log_path.partition("://")
    return "file:" if scheme == "file" else f"{scheme}://{rest.split('/', 1)[0]}"
